//! Pages link what exists.

use super::markdown::{link_targets, prose};
use super::project::{Problem, Project};

/// Checks the relative links of all Markdown files.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in project.with_extension(&["md"]) {
        for (line, prose) in prose(text) {
            for target in link_targets(prose) {
                let file = target.split('#').next().unwrap_or_default();
                if is_file_name(file) && !resolve(path, file).is_some_and(|file| project.exists(&file)) {
                    problems.push(Problem::of_line(path, line, format!("the link `{target}` leads nowhere")));
                }
            }
        }
    }
    problems
}

/// Not an address, a heading of the same page, or an item that rustdoc finds.
fn is_file_name(target: &str) -> bool {
    !target.is_empty() && !target.contains(':')
}

/// The path from the root of what a page calls `target`; none if that lies outside.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found() {
        let page = "[a](../README.md#top) [b](https://x.org/y) [c](#part) [d](crate::e)\n[f](gone.md)\n[g](../../h.md)";
        let text =
            said(&check(&files([("README.md", "[docs](docs/) [x](docs/page.md)"), ("docs/page.md", page)])));
        assert_eq!(
            text,
            "docs/page.md:2: the link `gone.md` leads nowhere\ndocs/page.md:3: the link `../../h.md` leads nowhere"
        );
    }
}
