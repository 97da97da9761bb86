//! Blocks: a plane of a tensor cut where its holders change, or the grid of a mesh.

use super::cell;
use crate::{DeviceMesh, Place, TensorLayout};
use std::collections::BTreeMap;

/// The most bands along one axis that are drawn.
const MAX_BANDS: usize = 64;

/// Blocks in rows and columns.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) rows: Vec<Band>,
    pub(super) columns: Vec<Band>,
    /// Row-major.
    pub(super) cells: Vec<Cell>,
    /// What runs down and what runs across.
    pub(super) down: String,
    pub(super) across: String,
}

/// A row or a column of blocks.
#[derive(Clone, Debug)]
pub(super) struct Band {
    pub(super) label: String,
    /// Its size beside the others.
    pub(super) weight: usize,
}

/// A block.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Centred in it, line by line.
    pub(super) lines: Vec<String>,
    /// Its first device: blocks of one device have one colour in every panel.
    pub(super) device: usize,
    pub(super) kind: Kind,
}

/// How sure the contents of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    Partial,
    Unknown,
}

/// Mesh axes with several devices.
fn wide(mesh: &DeviceMesh) -> Vec<usize> {
    (0..mesh.ndim()).filter(|axis| mesh.size(*axis) > 1).collect()
}

/// Tensor axes that a mesh axis with several devices splits.
fn split(layout: &TensorLayout) -> Vec<usize> {
    let is_split = |axis: &usize| layout.mapping().split_by(*axis).any(|by| layout.mesh().size(by) > 1);
    (0..layout.shape().len()).filter(is_split).collect()
}

/// Why there are no blocks.
pub(super) fn why_not(layout: &TensorLayout) -> &'static str {
    if wide(layout.mesh()).len() > 2 {
        "no blocks: more than two mesh axes have several devices"
    } else if split(layout).len() > 2 {
        "no blocks: more than two tensor axes are split"
    } else if layout.shape().elements() == 0 {
        "no blocks: the tensor has no elements"
    } else {
        "no blocks: the cuts are too many to draw"
    }
}

/// The devices of a mesh of at most two axes that count.
pub(super) fn of_mesh(mesh: &DeviceMesh, second_line: impl Fn(usize) -> String) -> Option<Grid> {
    devices(mesh, |position| Cell {
        lines: vec![position.to_string(), second_line(position)],
        device: position,
        kind: Kind::Whole,
    })
}

fn devices(mesh: &DeviceMesh, cell: impl Fn(usize) -> Cell) -> Option<Grid> {
    let (down, across) = match wide(mesh)[..] {
        [] => (None, mesh.ndim().checked_sub(1)),
        [one] => (None, Some(one)),
        [down, across] => (Some(down), Some(across)),
        _ => return None,
    };
    let bands = |axis: Option<usize>| -> Vec<Band> {
        let one = |i: usize| match axis {
            Some(axis) => format!("{}={i}", super::panel::name(mesh.axis_name(axis))),
            None => String::new(),
        };
        (0..axis.map_or(1, |axis| mesh.size(axis))).map(|i| Band { label: one(i), weight: 1 }).collect()
    };
    let name = |axis: Option<usize>| super::panel::name(axis.map_or("", |axis| mesh.axis_name(axis)));
    Some(Grid {
        rows: bands(down),
        columns: bands(across),
        // Row-major over the two axes is the order of the positions.
        cells: (0..mesh.num_devices()).map(cell).collect(),
        down: name(down),
        across: name(across),
    })
}

/// The plane of a tensor of which at most two axes are split, on a mesh of at most two axes that count.
pub(super) fn of_layout(layout: &TensorLayout) -> Option<Grid> {
    let mesh = layout.mesh();
    let (counted, cut) = (wide(mesh), split(layout));
    if counted.len() > 2 || cut.len() > 2 {
        return None;
    }
    if layout.places().contains(&Place::Unknown) {
        // Which indices a device holds is not known: the mesh is what can be drawn.
        return devices(mesh, |position| Cell {
            lines: vec![position.to_string(), "unknown".to_owned()],
            device: position,
            kind: Kind::Unknown,
        });
    }
    if layout.shape().elements() == 0 {
        return None;
    }
    let n = layout.shape().len();
    // The split axes, completed by the last ones.
    let (down, across) = match cut[..] {
        [a, b] => (Some(a), Some(b)),
        [one] if one + 1 == n => (n.checked_sub(2), Some(one)),
        [one] => (Some(one), Some(n - 1)),
        _ => (n.checked_sub(2), n.checked_sub(1)),
    };
    let (rows, columns) = (Cuts::new(layout, down)?, Cuts::new(layout, across)?);
    let mut held: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for position in 0..mesh.num_devices() {
        for row in rows.of(position) {
            for column in columns.of(position) {
                held.entry((*row, *column)).or_default().push(position);
            }
        }
    }
    let partial =
        layout.places().iter().enumerate().any(|(axis, place)| place.is_partial() && mesh.size(axis) > 1);
    let mut cells = Vec::new();
    for row in 0..rows.bands.len() {
        for column in 0..columns.bands.len() {
            let holders = held.get(&(row, column))?;
            cells.push(Cell {
                lines: vec![cell::holders(mesh, layout.places(), holders)],
                device: *holders.first()?,
                kind: if partial { Kind::Partial } else { Kind::Whole },
            });
        }
    }
    let name = |axis: Option<usize>| axis.map_or_else(String::new, |axis| format!("axis {axis}"));
    Some(Grid { rows: rows.bands, columns: columns.bands, cells, down: name(down), across: name(across) })
}

/// One axis of the plane, cut at the ends of all ranges, and the bands that each device has.
struct Cuts {
    bands: Vec<Band>,
    of: Vec<Vec<usize>>,
}

impl Cuts {
    /// `None` where the cuts are too many. Without an axis there is one band, and every device has it.
    fn new(layout: &TensorLayout, axis: Option<usize>) -> Option<Self> {
        let positions = 0..layout.mesh().num_devices();
        let Some(axis) = axis else {
            let band = Band { label: String::new(), weight: 1 };
            return Some(Self { bands: vec![band], of: positions.map(|_| vec![0]).collect() });
        };
        let extent = layout.shape().extent(axis);
        let ranges: Vec<_> =
            positions.map(|position| layout.mapping().ranges(axis, extent, position)).collect();
        let mut ends: Vec<usize> =
            ranges.iter().flatten().flat_map(|range| [range.start, range.end]).chain([0, extent]).collect();
        ends.sort_unstable();
        ends.dedup();
        if ends.len() > MAX_BANDS + 1 {
            return None;
        }
        let intervals = || ends.iter().zip(ends.iter().skip(1));
        let label = |a: usize, b: usize| if b - a == extent { ":".to_owned() } else { format!("{a}:{b}") };
        let bands = intervals().map(|(a, b)| Band { label: label(*a, *b), weight: b - a }).collect();
        let inside = |own: &crate::placement::Ranges| -> Vec<usize> {
            let holds = |a: usize, b: usize| own.iter().any(|range| range.start <= a && b <= range.end);
            let bands = intervals().enumerate().filter(|(_, (a, b))| holds(**a, **b));
            bands.map(|(i, _)| i).collect()
        };
        Some(Self { bands, of: ranges.iter().map(inside).collect() })
    }

    fn of(&self, position: usize) -> &[usize] {
        self.of.get(position).map_or(&[], Vec::as_slice)
    }
}
