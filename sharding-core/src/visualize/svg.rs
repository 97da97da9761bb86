//! Pictures as SVG.

use super::grid::{Cell, Grid, Kind};
use super::panel::Panel;
use crate::text::{columns, cut};
use std::fmt::Write;

/// Width of a panel's blocks, in pixels.
const BLOCKS: f64 = 420.0;
/// Heights between which the blocks keep the tensor's proportions.
const HEIGHT: (f64, f64) = (60.0, 420.0);
/// Height of a line of text, and width of one of its characters.
const LINE: f64 = 16.0;
const LETTER: f64 = 7.3;
/// Around a panel.
const MARGIN: f64 = 16.0;
/// For the labels of rows.
const LABELS: f64 = 76.0;
/// The longest line of text that is drawn.
const LONGEST: usize = 110;
/// Fills of blocks, by device; dark text can be read on each.
const COLOURS: [&str; 8] =
    ["#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#fb9a99", "#ffff99", "#9adbc5", "#d9d9d9"];

/// A document of its own.
pub(super) fn document(panels: &[Panel]) -> String {
    let mut body = String::new();
    let (mut x, mut height) = (0.0, LINE + 2.0 * MARGIN);
    for panel in panels {
        let (width, tall) = draw(panel, x, &mut body);
        x += width;
        height = f64::max(height, tall);
    }
    if panels.is_empty() {
        words(&mut body, MARGIN, MARGIN + LINE, "nothing to draw", "start", "");
        x = BLOCKS;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{x:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {x:.0} {height:.0}\" \
         font-family=\"ui-monospace, monospace\" font-size=\"12\" role=\"img\">\n\
         <defs><pattern id=\"terms\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect width=\"3\" height=\"8\" fill=\"#000\" fill-opacity=\"0.12\"/></pattern></defs>\n\
         <rect width=\"{x:.0}\" height=\"{height:.0}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Draws a panel whose left side is at `left`; gives its width and height.
fn draw(panel: &Panel, left: f64, into: &mut String) -> (f64, f64) {
    let x = left + MARGIN;
    let mut y = MARGIN;
    let mut widest = LABELS + BLOCKS;
    let mut line = |into: &mut String, y: &mut f64, text: &str, style: &str| {
        *y += LINE;
        let text = cut(text, LONGEST);
        widest = f64::max(widest, columns(&text) as f64 * LETTER);
        words(into, x, *y, &text, "start", style);
    };
    let bold = " font-weight=\"bold\"";
    if let Some(name) = &panel.name {
        line(into, &mut y, name, bold);
    }
    line(into, &mut y, &panel.headline, bold);
    for [name, place, meaning] in &panel.axes {
        line(into, &mut y, &format!("{name}: {place} - {meaning}"), " fill=\"#444\"");
    }
    y += LINE / 2.0;
    match &panel.grid {
        Some(grid) => y = blocks(grid, x, y, into),
        None => panel.tree.iter().for_each(|text| line(into, &mut y, text, "")),
    }
    for note in &panel.notes {
        line(into, &mut y, note, " fill=\"#444\" font-style=\"italic\"");
    }
    (widest + 2.0 * MARGIN, y + MARGIN)
}

/// Draws the blocks at their true shares, below `top`; gives where they end.
fn blocks(grid: &Grid, left: f64, top: f64, into: &mut String) -> f64 {
    let all = |bands: &[super::grid::Band]| bands.iter().map(|band| band.weight).sum::<usize>().max(1) as f64;
    let (down, across) = (all(&grid.rows), all(&grid.columns));
    let height =
        if grid.down.is_empty() { HEIGHT.0 } else { (BLOCKS * down / across).clamp(HEIGHT.0, HEIGHT.1) };
    let least = grid.cells.iter().map(|cell| cell.lines.len()).max().unwrap_or(1) as f64;
    let height = height.max(least * LINE * grid.rows.len().min(8) as f64);
    let (x0, y0) = (left + LABELS, top + 2.0 * LINE);
    words(into, x0 + BLOCKS / 2.0, top + LINE - 4.0, &grid.across, "middle", " fill=\"#666\"");
    words(into, left, top + 2.0 * LINE - 6.0, &grid.down, "start", " fill=\"#666\"");
    let mut x = x0;
    for band in &grid.columns {
        let width = BLOCKS * band.weight as f64 / across;
        fitting(into, (x + width / 2.0, y0 - 6.0), width, &band.label, "middle");
        x += width;
    }
    let mut y = y0;
    for (row, band) in grid.rows.iter().enumerate() {
        let tall = height * band.weight as f64 / down;
        if tall >= LINE * 0.8 {
            fitting(into, (x0 - 6.0, y + tall / 2.0 + 4.0), LABELS, &band.label, "end");
        }
        let mut x = x0;
        for (column, other) in grid.columns.iter().enumerate() {
            let width = BLOCKS * other.weight as f64 / across;
            if let Some(cell) = grid.cells.get(row * grid.columns.len() + column) {
                let indices: Vec<&str> =
                    [&*band.label, &*other.label].into_iter().filter(|label| !label.is_empty()).collect();
                block(into, (x, y, width, tall), cell, &indices.join(", "));
            }
            x += width;
        }
        y += tall;
    }
    y0 + height
}

/// One block. Its words stand in its title too, where there may be no room for them.
fn block(into: &mut String, (x, y, width, height): (f64, f64, f64, f64), cell: &Cell, indices: &str) {
    let colour = COLOURS.get(cell.device % COLOURS.len()).copied().unwrap_or("#fff");
    let (opacity, dash) = match cell.kind {
        Kind::Whole => ("1", ""),
        Kind::Partial => ("0.4", ""),
        Kind::Unknown => ("0.2", " stroke-dasharray=\"4 3\""),
    };
    let kind = match cell.kind {
        Kind::Whole => "whole",
        Kind::Partial => "partial",
        Kind::Unknown => "unknown",
    };
    let _ = write!(
        into,
        "<g class=\"{kind}\"><title>devices {}{}{}</title>",
        escape(&cell.lines.join(" ")),
        if indices.is_empty() { "" } else { ": " },
        escape(indices)
    );
    let place = format!("x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"");
    let _ =
        write!(into, "<rect {place} fill=\"{colour}\" fill-opacity=\"{opacity}\" stroke=\"#333\"{dash}/>");
    if cell.kind == Kind::Partial {
        let _ = write!(into, "<rect {place} fill=\"url(#terms)\"/>");
    }
    let lines = cell.lines.len() as f64;
    if height >= lines * LINE * 0.8 {
        for (i, text) in cell.lines.iter().enumerate() {
            let middle = y + height / 2.0 + 4.0 + (i as f64 - (lines - 1.0) / 2.0) * LINE;
            fitting(into, (x + width / 2.0, middle), width, text, "middle");
        }
    }
    into.push_str("</g>\n");
}

/// A text that is left out where it has no room.
fn fitting(into: &mut String, (x, y): (f64, f64), width: f64, text: &str, anchor: &str) {
    if columns(text) as f64 * LETTER <= width {
        words(into, x, y, text, anchor, "");
    }
}

fn words(into: &mut String, x: f64, y: f64, text: &str, anchor: &str, style: &str) {
    if text.is_empty() {
        return;
    }
    let _ = writeln!(
        into,
        "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\" xml:space=\"preserve\"{style}>{}</text>",
        escape(text)
    );
}

/// Text of an XML document.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
