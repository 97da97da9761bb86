//! One word of this field means a process, a device or a number of dimensions, depending on who reads: it is banned.
//!
//! In double quotes it is a mention, not a use: the name that another system gives to something (a key of its files, a
//! term of its documents). The verb is fine where it has an ending.

use super::project::{Problem, Project};

/// The word, not spelled here in one piece: this file is checked as well.
const WORD: &str = concat!("ra", "nk");

/// Checks sources, manifests, scripts and pages; data of other systems keeps its words.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in project.with_extension(&["rs", "md", "toml", "sh", "stderr"]) {
        for (line, content) in (1..).zip(text.lines()) {
            if uses_word(content) {
                let text = format!("\"{WORD}\" is banned: say device, process, or number of tensor axes");
                problems.push(Problem::of_line(path, line, text));
            }
        }
    }
    problems
}

/// Whether a line has the word, whole and not in quotes, in whatever case.
fn uses_word(line: &str) -> bool {
    let line = line.to_lowercase();
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(WORD).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + WORD.len()..].chars().next());
        let whole = !before.is_some_and(is_word) && !after.is_some_and(is_word);
        whole && (before, after) != (Some('"'), Some('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    #[test]
    fn a_use_is_found_and_a_mention_is_not() {
        let uses = ["let WORD = 1;", "// the Word of a tensor", "`word`", "per-word", "\"a word\""];
        let mentions = ["the \"word\" of others", "the words are worded", "MPI_Comm_word", "crword"];
        let page = uses.iter().chain(&mentions).map(|line| line.to_lowercase().replace("word", WORD));
        let page = page.collect::<Vec<_>>().join("\n");
        let text =
            said(&check(&files([("README.md", page.as_str()), ("tests/golden/a.json", page.as_str())])));
        assert_eq!(text.lines().count(), uses.len(), "{text}");
        assert!(text.starts_with("README.md:1:"), "{text}");
    }
}
