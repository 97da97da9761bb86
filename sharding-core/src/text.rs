//! Text for people: names of users made harmless, how wide a text stands, tables.

use std::fmt;
use std::ops::RangeInclusive;

/// A name of a user, as it may stand in a line: what would break lines, an XML document, or the direction of the text after
/// it is replaced.
pub(crate) fn clean(name: &str) -> String {
    name.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

fn is_harmful(c: char) -> bool {
    // Separators of lines and paragraphs, marks that turn or hide what follows, and what is no character.
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}')
}

/// Columns that a text takes in a terminal: two for each wide character of East Asia, none for a mark on another one.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(wide).sum()
}

/// The common ranges of Unicode Standard Annex 11, East Asian Width, and of combining marks.
fn wide(c: char) -> usize {
    match c {
        ' '..='\u{2ff}' => 1,
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' => 0,
        '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' => 0,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{303e}' | '\u{3041}'..='\u{a4cf}' => 2,
        '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' => 2,
        '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' => 2,
        '\u{1f300}'..='\u{1f64f}' | '\u{1f680}'..='\u{1f6ff}' | '\u{1f900}'..='\u{1f9ff}' => 2,
        '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// A text of at most `longest` columns: where it is longer, its end is cut off.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    if columns(text) <= longest {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut left = longest.saturating_sub(1);
    for c in text.chars() {
        match left.checked_sub(wide(c)) {
            Some(rest) => left = rest,
            None => break,
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

fn spaces(text: &str, width: usize) -> usize {
    width.saturating_sub(columns(text))
}

/// The text with spaces after it, `width` columns in all.
pub(crate) fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(spaces(text, width)))
}

/// The text with spaces before it.
pub(crate) fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(spaces(text, width)))
}

/// The text in the middle of spaces.
pub(crate) fn middle(text: &str, width: usize) -> String {
    let all = spaces(text, width);
    format!("{}{text}{}", " ".repeat(all / 2), " ".repeat(all - all / 2))
}

/// Writes rows with their columns below each other, a line each. Those of `numbers` stand to the right. Cells are made harmless:
/// what would break a line or turn the direction of what follows is replaced.
///
/// # Errors
/// What the formatter says.
pub fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    indent: &str,
    rows: &[[String; N]],
    numbers: RangeInclusive<usize>,
) -> fmt::Result {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| clean(cell))).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns(cell));
        }
    }
    for (i, row) in rows.iter().enumerate() {
        let mut line = indent.to_owned();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            line += &if numbers.contains(&column) { right(cell, width) } else { left(cell, width) };
            line += "  ";
        }
        write!(f, "{}{}", if i == 0 { "" } else { "\n" }, line.trim_end())?;
    }
    Ok(())
}

/// A time for a table, or that there is none.
pub(crate) fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_turn_hide_or_break_lines_are_made_harmless() {
        assert_eq!(
            clean("a\u{202e}b\u{2028}c\u{200b}d\ne\u{feff}"),
            "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}"
        );
        assert_eq!(clean("é漢 e\u{301} <b>\"'&"), "é漢 e\u{301} <b>\"'&");
    }

    #[test]
    fn texts_are_as_wide_as_they_stand() {
        assert_eq!(["dp", "", "漢字", "e\u{301}", "🌍x", "┌─┐"].map(columns), [2, 0, 4, 1, 3, 3]);
        assert_eq!([left("漢", 4), right("漢", 4), middle("漢", 5)], ["漢  ", "  漢", " 漢  "]);
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!([cut("abcdefg", 6), cut("漢字漢字", 6), cut("abc", 0)], ["abcde…", "漢字…", "…"]);
        assert_eq!(left("long", 2), "long");
    }
}
