//! Unsafe code says why it is sound: also in macros and behind features, where clippy does not look.

use super::project::{Problem, Project};
use super::tokens::{Token, text_at, tokens};

/// Checks every `unsafe` block, function, trait and impl.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Files of UI tests are mistakes on purpose.
    let code = project.with_extension(&["rs"]).filter(|(path, _)| !path.contains("/tests/ui/"));
    for (path, text) in code {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let tokens = tokens(text);
        for (at, token) in tokens.iter().enumerate() {
            if token.text == "unsafe" && is_obligation(&tokens, at + 1) && !is_explained(&lines, token.line) {
                let text = "`unsafe` without a reason: write `// SAFETY: ..` above it (`# Safety` in docs)";
                problems.push(Problem::of_line(path, token.line, text));
            }
        }
    }
    problems
}

/// Whether what follows `unsafe` is code or a declaration, not the type of a function or an attribute.
fn is_obligation(tokens: &[Token], mut at: usize) -> bool {
    if text_at(tokens, at) == "extern" {
        at += 1;
        at += usize::from(text_at(tokens, at).starts_with('"'));
    }
    match text_at(tokens, at) {
        "{" | "impl" | "trait" => true,
        "fn" => text_at(tokens, at + 1) != "(",
        _ => false,
    }
}

/// Whether a comment on the line (counted from 1), or above the statement that the line belongs to, gives the reason.
fn is_explained(lines: &[&str], line: usize) -> bool {
    let gives_reason = |line: &str| {
        line.split_once("//")
            .is_some_and(|(_, comment)| comment.contains("SAFETY:") || comment.contains("# Safety"))
    };
    let above = lines.iter().take(line).rev();
    let mut in_comment = false;
    for (distance, text) in above.enumerate() {
        if gives_reason(text) {
            return true;
        }
        let is_comment = text.starts_with("//") || text.starts_with("#[");
        // A line that ends something belongs to another statement; so does code above the comment of this one.
        let is_other = text.is_empty() || text.ends_with([';', '{', '}', ',']);
        if distance > 0 && !is_comment && (is_other || in_comment) {
            return false;
        }
        in_comment |= is_comment;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    fn lines_found(source: &str) -> Vec<usize> {
        let problems = check(&files([("backend-x/src/lib.rs", source)]));
        let number = |line: &str| line.split(':').nth(1).unwrap().parse().unwrap();
        said(&problems).lines().map(number).collect()
    }

    #[test]
    fn what_has_no_reason_is_found() {
        assert_eq!(lines_found("fn f() {\n    unsafe { g() }\n}"), [2]);
        assert_eq!(lines_found("unsafe impl Send for X {}"), [1]);
        assert_eq!(lines_found("/// Reads.\npub unsafe fn g() {}"), [2]);
        assert_eq!(lines_found("macro_rules! m { () => {\n    unsafe { g() }\n} }"), [2]);
        assert_eq!(lines_found("// SAFETY: fine.\nlet a = unsafe { f() };\nlet b = unsafe { f() };"), [3]);
        assert_eq!(lines_found("// SAFETY: of another.\nf();\n// Words.\nlet b = unsafe { f() };"), [4]);
        assert_eq!(lines_found("unsafe extern \"C\" { fn g(); }"), [1]);
    }

    #[test]
    fn what_has_a_reason_passes() {
        for source in [
            "// SAFETY: it is there.\n// Really.\nlet a =\n    unsafe { f() };",
            "/// # Safety\n///\n/// Give it a live pointer.\n#[inline]\npub unsafe fn g() {}",
            "let a = unsafe { f() }; // SAFETY: it is there.",
            "type F = unsafe extern \"C\" fn(i32);\ntype G = unsafe fn();",
            "const S: &str = \"unsafe { f() }\"; // unsafe { f() }",
        ] {
            assert_eq!(lines_found(source), [0; 0], "{source}");
        }
    }
}
