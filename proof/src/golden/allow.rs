//! The list of deliberate differences: the only place that looks at ids.

use super::json::{Malformed, Parsed};
use std::path::Path;

/// Beside the reference cases: a line each of suite, id and reason, separated by tabs. Lines that begin with `#` are
/// comments.
pub(super) const FILE: &str = "allowed.tsv";

/// The most entries: a longer list would be a second specification.
const MOST: usize = 24;

/// A case that differs on purpose.
pub(super) struct Allowed {
    suite: String,
    id: String,
    pub(super) reason: String,
}

impl Allowed {
    pub(super) fn is(&self, suite: &str, id: &str) -> bool {
        self.suite == suite && self.id == id
    }
}

/// Reads the list.
pub(super) fn read(file: &Path) -> Parsed<Vec<Allowed>> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Malformed::new(format!("cannot read {}: {error}", file.display())))?;
    parse(&text).map_err(|error| Malformed::new(format!("{}: {error}", file.display())))
}

fn parse(text: &str) -> Parsed<Vec<Allowed>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let allowed: Vec<Allowed> = lines
        .map(|(i, line)| match line.split('\t').collect::<Vec<_>>()[..] {
            [suite, id, reason] if !reason.trim().is_empty() => {
                Ok(Allowed { suite: suite.to_owned(), id: id.to_owned(), reason: reason.to_owned() })
            }
            _ => Err(Malformed::new(format!("line {} is not suite, id and reason between tabs", i + 1))),
        })
        .collect::<Parsed<_>>()?;
    if allowed.len() > MOST {
        return Err(Malformed::new(format!("{} differences are allowed, the most is {MOST}", allowed.len())));
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_required_and_the_list_is_short() {
        let read = parse("# comment\n\na\t1\twhy not\n").unwrap();
        assert!(read.len() == 1 && read[0].is("a", "1") && !read[0].is("a", "2"));
        assert!(parse("a\t1\n").is_err());
        assert!(parse("a\t1\t \n").is_err());
        assert!(parse(&"a\t1\tbecause\n".repeat(MOST + 1)).is_err());
    }
}
