//! Pictures as text.

use super::grid::{Band, Grid};
use super::panel::Panel;
use crate::text::{self, columns, left, middle};

/// Panels stand side by side up to this width.
const WIDTH: usize = 120;
/// The size that blocks grow to, for their shares to show.
const GROWN: (usize, usize) = (72, 16);
/// The most columns and lines of blocks.
const MOST: (usize, usize) = (100, 64);
/// Between blocks and tree, and between panels.
const GAP: usize = 4;

pub(super) fn picture(panels: &[Panel]) -> String {
    if panels.is_empty() {
        return "nothing to draw".to_owned();
    }
    let whole: Vec<Vec<String>> = panels.iter().map(panel).collect();
    if let Some(joined) = side_by_side(&whole) {
        return joined;
    }
    if panels.len() > 1 {
        // Without the trees they may have room.
        let brief: Vec<Vec<String>> = panels.iter().map(|panel| lines(panel, true)).collect();
        if let Some(joined) = side_by_side(&brief) {
            return joined;
        }
    }
    whole.iter().map(|lines| lines.join("\n")).collect::<Vec<_>>().join("\n\n")
}

fn side_by_side(panels: &[Vec<String>]) -> Option<String> {
    let wide: usize = panels.iter().map(|lines| width(lines) + GAP).sum();
    let mut panels = panels.iter();
    let first = panels.next().filter(|_| wide <= WIDTH + GAP)?.clone();
    Some(panels.fold(first, |left, right| beside(&left, right)).join("\n"))
}

/// The lines of one panel.
pub(super) fn panel(panel: &Panel) -> Vec<String> {
    lines(panel, false)
}

fn lines(panel: &Panel, brief: bool) -> Vec<String> {
    let mut lines: Vec<String> = panel.name.iter().map(|name| format!("{name}:")).collect();
    lines.push(panel.headline.clone());
    let wide = |column: usize| {
        let words = panel.axes.iter().filter_map(|axis| axis.get(column));
        words.map(|word| columns(word)).max().unwrap_or(0)
    };
    let (names, places) = (wide(0) + 1, wide(1));
    for [name, place, meaning] in &panel.axes {
        let meaning = if brief { "" } else { meaning };
        let line = format!("  {} {}  {meaning}", left(&format!("{name}:"), names), left(place, places));
        lines.push(line.trim_end().to_owned());
    }
    lines.push(String::new());
    let mut notes = panel.notes.clone();
    let drawn = panel.grid.as_ref().and_then(|grid| {
        let drawn = blocks(grid, &mut notes);
        if drawn.is_none() {
            notes.push("no blocks in the text: they are too many, the SVG has them".to_owned());
        }
        drawn
    });
    match drawn {
        Some(drawn) if brief => lines.extend(drawn),
        Some(drawn) => lines.extend(beside(&drawn, &panel.tree)),
        None => lines.extend(panel.tree.iter().cloned()),
    }
    lines.extend(notes);
    lines
}

fn width(lines: &[String]) -> usize {
    lines.iter().map(|line| columns(line)).max().unwrap_or(0)
}

fn beside<'a>(left: &'a [String], right: &'a [String]) -> Vec<String> {
    let wide = width(left) + GAP;
    let line = |i: usize| {
        let line = |side: &'a [String]| side.get(i).map_or("", String::as_str);
        format!("{}{}", text::left(line(left), wide), line(right)).trim_end().to_owned()
    };
    (0..left.len().max(right.len())).map(line).collect()
}

/// The blocks with their borders; a note where their sizes are not those of the shares.
fn blocks(grid: &Grid, notes: &mut Vec<String>) -> Option<Vec<String>> {
    let (m, n) = (grid.rows.len(), grid.columns.len());
    let cell = |row: usize, column: usize| grid.cells.get(row * n + column);
    let fit = |column: usize| {
        let labels = (0..m).filter_map(|row| cell(row, column)).flat_map(|cell| &cell.lines);
        let head = grid.columns.get(column).map_or(0, |band| columns(&band.label));
        labels.map(|line| columns(line)).max().unwrap_or(0).max(head) + 2
    };
    let tall = |row: usize| (0..n).filter_map(|column| cell(row, column)).map(|cell| cell.lines.len()).max();
    let (widths, wide) = scaled(&grid.columns, &(0..n).map(fit).collect::<Vec<_>>(), 12, GROWN.0);
    let least: Vec<usize> = (0..m).map(|row| tall(row).unwrap_or(1)).collect();
    let (heights, high) = scaled(&grid.rows, &least, 3, GROWN.1);
    if widths.iter().sum::<usize>() > MOST.0 || heights.iter().sum::<usize>() > MOST.1 {
        return None;
    }
    if !(wide && high) {
        notes.push("blocks are not to scale: the smallest would be too small".to_owned());
    }
    let margin = grid.rows.iter().map(|band| columns(&band.label)).max().unwrap_or(0);
    let margin = if margin == 0 { 0 } else { margin + 1 };
    let rule = |left: char, middle: char, right: char| {
        let mut line = " ".repeat(margin);
        line.push(left);
        for (i, width) in widths.iter().enumerate() {
            if i > 0 {
                line.push(middle);
            }
            line.push_str(&"─".repeat(*width));
        }
        line.push(right);
        line
    };
    let mut lines = Vec::new();
    if grid.columns.iter().any(|band| !band.label.is_empty()) {
        let mut head = " ".repeat(margin + 1);
        for (band, width) in grid.columns.iter().zip(&widths) {
            head.push_str(&format!("{} ", middle(&band.label, *width)));
        }
        lines.push(head.trim_end().to_owned());
    }
    lines.push(rule('┌', '┬', '┐'));
    for (row, height) in heights.iter().enumerate() {
        if row > 0 {
            lines.push(rule('├', '┼', '┤'));
        }
        let label = grid.rows.get(row).map_or("", |band| band.label.as_str());
        for line in 0..*height {
            let label = if line == (height - 1) / 2 { label } else { "" };
            let mut text = left(label, margin);
            for (column, width) in widths.iter().enumerate() {
                let words = cell(row, column).map_or(&[][..], |cell| &cell.lines);
                let top = (height - words.len().min(*height)) / 2;
                let word = line.checked_sub(top).and_then(|i| words.get(i)).map_or("", String::as_str);
                text.push_str(&format!("│{}", middle(word, *width)));
            }
            text.push('│');
            lines.push(text);
        }
    }
    lines.push(rule('└', '┴', '┘'));
    Some(lines)
}

/// Sizes by weight, each at least its `least`; and whether they are true to the weights. They grow up to `grown` in all to
/// be so, and where that is not enough the small ones are drawn larger than they are.
fn scaled(bands: &[Band], least: &[usize], at_least: usize, grown: usize) -> (Vec<usize>, bool) {
    let common = bands.iter().fold(0, |common, band| gcd(common, band.weight)).max(1);
    let weights: Vec<f64> = bands.iter().map(|band| (band.weight / common) as f64).collect();
    let all = weights.iter().sum::<f64>().max(1.0);
    let needs = weights.iter().zip(least).map(|(weight, least)| *least as f64 / weight.max(1.0));
    let scale = needs.fold(at_least as f64 / all, f64::max);
    // Whole multiples where they fit, so that no share is rounded.
    let scale = if scale.ceil() * all <= grown as f64 { scale.ceil() } else { scale };
    let equal = all <= bands.len() as f64;
    let fits = scale * all <= grown as f64 || equal;
    let scale = if fits { scale } else { grown as f64 / all };
    let mut end = 0.0_f64;
    let mut sizes: Vec<usize> = Vec::new();
    for (weight, least) in weights.iter().zip(least) {
        let begin = end.round();
        end += weight * scale;
        sizes.push(((end.round() - begin) as usize).max(*least));
    }
    (sizes, fits)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
