//! A file past 800 lines has more than one subject, or says here why not.

use super::project::{Problem, Project};

/// The most lines of a file that needs no reason.
const MOST: usize = 800;

/// Files that are longer, and why.
const ALLOWED: &[(&str, &str)] = &[];

/// Checks sources and pages.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    check_but(project, ALLOWED)
}

fn check_but(project: &Project, allowed: &[(&str, &str)]) -> Vec<Problem> {
    let long = |text: &str| text.lines().count() > MOST;
    let is_allowed = |path: &str| allowed.iter().any(|(allowed, _)| *allowed == path);
    let too_long =
        project.with_extension(&["rs", "md"]).filter(|(path, text)| long(text) && !is_allowed(path));
    let mut problems: Vec<Problem> = too_long
        .map(|(path, text)| {
            let lines = text.lines().count();
            Problem::of_path(
                path,
                format!("{lines} lines: split it by subject, or give a reason in {}", file!()),
            )
        })
        .collect();
    for (path, _) in allowed {
        if !project.files.get(*path).is_some_and(|text| long(text)) {
            problems
                .push(Problem::of_path(*path, format!("is not long: take it off the list in {}", file!())));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    #[test]
    fn a_long_file_needs_a_reason_and_a_reason_a_long_file() {
        let project = files([("a.rs", "x\n".repeat(801)), ("b.rs", "x\n".repeat(800))]);
        assert!(said(&check(&project)).starts_with("a.rs: 801 lines"));
        assert_eq!(check_but(&project, &[("a.rs", "one table")]), []);
        let text = said(&check_but(&project, &[("a.rs", "one table"), ("b.rs", "stale")]));
        assert!(text.starts_with("b.rs: is not long"), "{text}");
    }
}
