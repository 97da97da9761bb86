//! The tree: a level per mesh axis, a leaf per device.

use super::panel::name;
use crate::DeviceMesh;
use crate::text::{self, left};

/// The lines of the tree; `words` are columns beside every leaf.
pub(super) fn branches(mesh: &DeviceMesh, words: &dyn Fn(usize) -> Vec<String>) -> Vec<String> {
    let mut leaves: Vec<(String, Vec<String>)> = Vec::new();
    grow(mesh, 0, 0, "", &mut leaves, words);
    // Columns stand below each other.
    let columns = leaves.iter().map(|(_, words)| words.len()).max().unwrap_or(0);
    let stem =
        leaves.iter().filter(|(_, words)| !words.is_empty()).map(|(stem, _)| text::columns(stem)).max();
    let mut widths = vec![0; columns];
    for (_, words) in &leaves {
        for (width, word) in widths.iter_mut().zip(words) {
            *width = (*width).max(text::columns(word));
        }
    }
    let line = |(label, words): &(String, Vec<String>)| {
        let mut line = label.clone();
        if !words.is_empty() {
            line = left(&line, stem.unwrap_or(0));
        }
        for (word, width) in words.iter().zip(&widths) {
            line.push_str(&format!("  {}", left(word, *width)));
        }
        line.trim_end().to_owned()
    };
    leaves.iter().map(line).collect()
}

/// The children along one mesh axis of the group that begins at `base`.
fn grow(
    mesh: &DeviceMesh,
    axis: usize,
    base: usize,
    stem: &str,
    lines: &mut Vec<(String, Vec<String>)>,
    words: &dyn Fn(usize) -> Vec<String>,
) {
    let leaf = |position: usize| {
        let mut columns = vec![format!("device {position}")];
        columns.extend(words(position));
        columns
    };
    if mesh.ndim() == 0 {
        lines.push((String::new(), leaf(base)));
        return;
    }
    let (size, is_last_axis) = (mesh.size(axis), axis + 1 >= mesh.ndim());
    for i in 0..size {
        let position = base + i * mesh.stride(axis);
        let is_last = i + 1 == size;
        // The outermost level needs no branches.
        let (branch, below) = match (axis, is_last) {
            (0, _) => (String::new(), String::new()),
            (_, false) => (format!("{stem}├─ "), format!("{stem}│  ")),
            (_, true) => (format!("{stem}└─ "), format!("{stem}   ")),
        };
        let label = format!("{branch}{}={i}", name(mesh.axis_name(axis)));
        if is_last_axis {
            lines.push((label, leaf(position)));
        } else {
            lines.push((label, Vec::new()));
            grow(mesh, axis + 1, position, &below, lines, words);
        }
    }
}

/// `dp=0, tp=1`.
pub(super) fn coordinate(mesh: &DeviceMesh, position: usize) -> String {
    let one = |(axis, own): (usize, &str)| format!("{}={}", name(own), mesh.coord(position, axis));
    mesh.axis_names().enumerate().map(one).collect::<Vec<_>>().join(", ")
}
