//! One file of `ops` chooses backends: every other is the same whatever is linked.

use super::project::{Problem, Project};
use super::tokens::{starts_with, tokens};
use crate::features::BACKENDS;

/// Checks that exactly one file of `ops/src` has a `cfg` of a backend.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let uses: Vec<(&str, usize)> = project
        .under("ops/src")
        .filter(|(path, _)| path.ends_with(".rs"))
        .filter_map(|(path, text)| first_use(text).map(|line| (path, line)))
        .collect();
    match uses.as_slice() {
        [_] => Vec::new(),
        [] => vec![Problem::of_path("ops/src", "no file links a backend by `cfg(feature = ..)`")],
        [(first, _), others @ ..] => {
            let text = format!("backends are chosen in one file, and {first} has their `cfg` already");
            others.iter().map(|(path, line)| Problem::of_line(*path, *line, text.clone())).collect()
        }
    }
}

/// The line of the first `feature = "BACKEND"`.
fn first_use(source: &str) -> Option<usize> {
    let tokens = tokens(source);
    // As they stand in a `cfg`, in quotes.
    let names = BACKENDS.map(|backend| format!("{backend:?}"));
    let is_use = |at: &usize| names.iter().any(|name| starts_with(&tokens, *at, &["feature", "=", name]));
    (0..tokens.len()).find(is_use).map(|at| tokens[at].line)
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    const CHOICE: (&str, &str) = ("ops/src/backends.rs", "#[cfg(feature = \"cpu\")]\nuse backend_cpu as _;");

    #[test]
    fn a_second_file_is_found_and_words_about_it_are_not() {
        let talk = ("ops/src/add.rs", "//! `#[cfg(feature = \"cpu\")]`\nconst S: &str = \"feature = cpu\";");
        assert_eq!(check(&files([CHOICE, talk])), []);
        let second = ("ops/src/matmul.rs", "\nfn f() { if cfg!(any(feature = \"sim\", test)) {} }");
        let text = said(&check(&files([CHOICE, talk, second])));
        assert!(text.starts_with("ops/src/matmul.rs:2: backends are chosen in one file"), "{text}");
    }

    #[test]
    fn no_file_at_all_is_a_problem() {
        assert_eq!(check(&files([("ops/src/lib.rs", "#[cfg(feature = \"testing\")] mod t;")])).len(), 1);
    }
}
