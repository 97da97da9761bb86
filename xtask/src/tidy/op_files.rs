//! One op, one file, and the file has the op's name.

use super::project::{Problem, Project};
use super::tokens::{Token, starts_with, text_at, tokens};

/// Checks that every function with `#[sharding_rule]` in `ops/src` stands in a file of its name.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in project.under("ops/src") {
        let Some(stem) = path.strip_suffix(".rs").and_then(|path| path.rsplit('/').next()) else { continue };
        for (op, line) in ops(&tokens(text)) {
            if bare(&op) != bare(stem) {
                let text = format!("the op `{op}` belongs into a file of its own, `{}.rs`", bare(&op));
                problems.push(Problem::of_line(path, line, text));
            }
        }
    }
    problems
}

/// Name and line of the functions with the attribute that stand at the top of a file; those in its tests do not.
fn ops(tokens: &[Token]) -> Vec<(String, usize)> {
    let mut ops = Vec::new();
    let mut declared = false;
    for (at, token) in tokens.iter().enumerate() {
        // `#[sharding_rule(..)]`, with or without the path of a crate.
        declared |= token.depth == 1 && token.text == "sharding_rule" && opens_attribute(tokens, at);
        if declared && token.depth == 0 && token.text == "fn" {
            ops.push((text_at(tokens, at + 1).to_owned(), token.line));
            declared = false;
        }
    }
    ops
}

/// Whether the token at `at` ends the path that an attribute begins with.
fn opens_attribute(tokens: &[Token], mut at: usize) -> bool {
    while at >= 3 && starts_with(tokens, at - 2, &[":", ":"]) {
        at -= 3;
    }
    at >= 2 && starts_with(tokens, at - 2, &["#", "["])
}

/// The name without what a keyword needs to be one (`where_`, `r#where`).
fn bare(name: &str) -> &str {
    name.trim_start_matches("r#").trim_end_matches('_')
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    #[test]
    fn an_op_in_a_file_of_another_name_is_found() {
        let two = "#[sharding_rule([\"a -> a\"])]\n/// Adds.\npub fn add() {}\n#[core::sharding_rule(x)]\npub fn sub() {}";
        let text = said(&check(&files([("ops/src/add.rs", two)])));
        assert_eq!(text, "ops/src/add.rs:5: the op `sub` belongs into a file of its own, `sub.rs`");
    }

    #[test]
    fn keywords_helpers_and_ops_of_tests_pass() {
        let text = "#[sharding_rule([\"a -> a\"])]\npub fn where_() {}\nfn helper() {}
            mod tests { #[sharding_rule(x)] fn other() {} }";
        assert_eq!(check(&files([("ops/src/where_.rs", text), ("ops/src/select/where.rs", text)])), []);
    }
}
