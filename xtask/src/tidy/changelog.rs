//! The changelog is kept with each change.

use super::project::{Problem, Project};

/// Checks that `CHANGELOG.md` has a section for what is not released yet.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let has_section =
        |text: &String| text.lines().any(|line| line.starts_with("## ") && line.contains("Unreleased"));
    if project.files.get("CHANGELOG.md").is_some_and(has_section) {
        return Vec::new();
    }
    vec![Problem::of_path("CHANGELOG.md", "must have a section `## [Unreleased]`")]
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::files;
    use super::*;

    #[test]
    fn the_section_must_be_there() {
        assert_eq!(check(&files([("CHANGELOG.md", "# Changes\n\n## [Unreleased]\n")])), []);
        assert_eq!(check(&files([("CHANGELOG.md", "# Changes\n\nUnreleased\n\n## 0.1.0\n")])).len(), 1);
        assert_eq!(check(&files([("README.md", "## Unreleased")])).len(), 1);
    }
}
