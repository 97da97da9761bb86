//! Nothing that is committed knows one person's machine.

use super::project::{Problem, Project};

/// Directories that only absolute paths of one machine begin with.
const ROOTS: [&str; 7] = ["Users", "farm", "home", "mnt", "root", "tmp", "work"];

/// Checks every text file.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in project.texts() {
        for (line, content) in (1..).zip(text.lines()) {
            if let Some(root) = ROOTS.iter().find(|root| has_path_in(content, root)) {
                let text = format!("names a path of one machine (/{root}/..)");
                problems.push(Problem::of_line(path, line, text));
            }
        }
    }
    problems
}

/// Whether a line has an absolute path in this directory of the root.
fn has_path_in(line: &str, root: &str) -> bool {
    let continues = |before: char| before.is_alphanumeric() || ".-_~$}/".contains(before);
    let start = format!("/{root}/");
    line.match_indices(&start).any(|(at, _)| {
        let named =
            line[at + start.len()..].starts_with(|first: char| first.is_alphanumeric() || first == '.');
        named && !line[..at].chars().next_back().is_some_and(continues)
    })
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    #[test]
    fn an_absolute_path_is_found_and_a_relative_one_is_not() {
        let bad = ROOTS.map(|root| format!("see `/{root}/x`")).join("\n");
        let good = ROOTS
            .map(|root| format!("$DIR/{root}/x https://a.org/{root}/x ../{root}/x a /{root}/ b"))
            .join("\n");
        let text = said(&check(&files([("bad.md", bad), ("good.json", good)])));
        assert_eq!(text.lines().count(), ROOTS.len(), "{text}");
        assert!(text.lines().all(|line| line.starts_with("bad.md:")), "{text}");
    }
}
