//! Sibling backends have the same files, so that a reader who knows one knows all. Into what one of them is divided, in a folder
//! of its name, is its own matter.

use std::collections::{BTreeMap, BTreeSet};

use super::project::{Problem, Project};

/// Checks that every `backend-*/src` has the files of every other.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let mut backends: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, _) in project.texts() {
        if let Some((backend, file)) = path.split_once("/src/")
            && backend.starts_with("backend-")
        {
            backends.entry(backend).or_default().insert(file);
        }
    }
    if backends.len() < 2 {
        return vec![Problem::of_path("backend-*", "there are no two backends to compare")];
    }
    let mut problems = Vec::new();
    for (backend, files) in &backends {
        for (sibling, more) in &backends {
            let whole = |file: &str| file.split_once('/').map(|(folder, _)| format!("{folder}.rs"));
            let divided = |file: &str| whole(file).is_some_and(|whole| files.contains(whole.as_str()));
            for file in more.difference(files).filter(|file| !divided(file)) {
                let text =
                    format!("{backend} has no such file, but {sibling} has; siblings have the same files");
                problems.push(Problem::of_path(format!("{backend}/src/{file}"), text));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    #[test]
    fn a_file_that_a_sibling_lacks_is_found() {
        let paths = ["backend-a/src/lib.rs", "backend-a/src/kernel/dot.rs", "backend-b/src/lib.rs"];
        let text = said(&check(&files(paths.map(|path| (path, "")))));
        assert_eq!(
            text,
            "backend-b/src/kernel/dot.rs: backend-b has no such file, but backend-a has; siblings have the same files"
        );
        let divided = ["backend-a/src/dot.rs", "backend-a/src/dot/tile.rs", "backend-b/src/dot.rs"];
        assert_eq!(check(&files(divided.map(|path| (path, "")))), []);
        let equal = ["backend-a/src/lib.rs", "backend-b/src/lib.rs", "backend-b/tests/it/main.rs"];
        assert_eq!(check(&files(equal.map(|path| (path, "")))), []);
    }

    #[test]
    fn nothing_to_compare_is_a_problem() {
        assert_eq!(check(&files([("backend-a/src/lib.rs", "")])).len(), 1);
    }
}
