//! The little of Markdown that the checks read.

/// Number (from 1) and text of the lines outside of fenced code.
pub(super) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((number, line));
        }
    }
    lines
}

/// What stands between single backticks in a line.
pub(super) fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of a line's links: `[text](target)` and `[text]: target`.
pub(super) fn link_targets(line: &str) -> Vec<String> {
    // What looks like a link inside of code is none.
    let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let mut targets: Vec<String> = inline.map(str::to_owned).collect();
    if let Some((_, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        targets.push(target.trim().to_owned());
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_links_and_fences() {
        let text =
            "see `a` and `b/`\n```\n`c` [x](d)\n```\n[one](e.md#part), `[no](f)`, [two](g)\n[three]: h.md";
        let lines = prose(text);
        assert_eq!(lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 5, 6]);
        assert_eq!(code_spans(lines[0].1).collect::<Vec<_>>(), ["a", "b/"]);
        assert_eq!(link_targets(lines[1].1), ["e.md#part", "g"]);
        assert_eq!(link_targets(lines[2].1), ["h.md"]);
    }
}
