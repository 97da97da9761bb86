//! One thing in a picture: its words, its blocks, its tree.

use super::grid::{self, Grid};
use super::{MAX_DEVICES, cell, summary, tree};
use crate::text::{clean, cut};
use crate::{DeviceMesh, Place, Shape, Tensor, TensorLayout};

/// One thing in a picture. Made here, drawn by a [`Picture`](super::Picture).
#[derive(Clone, Debug)]
pub struct Panel {
    /// What the user calls it.
    pub(super) name: Option<String>,
    /// What it is.
    pub(super) headline: String,
    /// A line for every mesh axis: the name, and what happens there.
    pub(super) axes: Vec<[String; 3]>,
    /// The blocks, where they can be drawn.
    pub(super) grid: Option<Grid>,
    /// A line for every device or group of them, or the summary.
    pub(super) tree: Vec<String>,
    /// What the blocks cannot say.
    pub(super) notes: Vec<String>,
    /// The table of an HTML page: its head, and a row per device.
    pub(super) table: Vec<Vec<String>>,
}

impl Panel {
    /// A mesh.
    pub fn mesh(mesh: &DeviceMesh) -> Self {
        let axis = |(axis, own): (usize, &str)| {
            let kind = mesh.axis_types().get(axis).copied().unwrap_or_default();
            let devices = if mesh.size(axis) == 1 { "device" } else { "devices" };
            [name(own), format!("{kind:?}"), format!("{} {devices}", mesh.size(axis))]
        };
        let mut panel = Self {
            name: None,
            headline: mesh_name(mesh),
            axes: mesh.axis_names().enumerate().map(axis).collect(),
            grid: None,
            tree: Vec::new(),
            notes: Vec::new(),
            table: Vec::new(),
        };
        if mesh.num_devices() > MAX_DEVICES {
            panel.tree = summary::mesh(mesh);
            return panel;
        }
        let device = |position: usize| mesh.device(position).map_or_else(String::new, |d| d.to_string());
        panel.tree = tree::branches(mesh, &|position| vec![device(position)]);
        panel.table = table(mesh, &["device", "coordinate", "hardware"], |position| vec![device(position)]);
        panel.grid = grid::of_mesh(mesh, device);
        panel
    }

    /// A layout.
    pub fn layout(layout: &TensorLayout) -> Self {
        Self::placed(layout, |_| None)
    }

    /// A tensor: its layout, with the true sizes of shards whose placement is Unknown.
    pub fn tensor(tensor: &Tensor) -> Self {
        Self::placed(tensor.layout(), |position| {
            let at = tensor.positions().iter().position(|own| *own == position)?;
            Some(tensor.shards().get(at)?.shape().clone())
        })
    }

    fn placed(layout: &TensorLayout, held: impl Fn(usize) -> Option<Shape>) -> Self {
        let mesh = layout.mesh();
        let axis = |(own, place): (&str, &Place)| [name(own), cell::short(*place), cell::meaning(*place)];
        let mut panel = Self {
            name: None,
            headline: format!("{} on {}", layout.meta(), mesh_name(mesh)),
            axes: mesh.axis_names().zip(layout.places()).map(axis).collect(),
            grid: None,
            tree: Vec::new(),
            notes: Vec::new(),
            table: Vec::new(),
        };
        if mesh.num_devices() > MAX_DEVICES {
            panel.tree = summary::layout(layout);
            return panel;
        }
        let words = |position: usize| cell::holding(layout, position, held(position).as_ref());
        panel.tree = tree::branches(mesh, &words);
        panel.table = table(mesh, &["device", "coordinate", "indices", "local array", "share"], words);
        panel.grid = grid::of_layout(layout);
        let empty: Vec<usize> =
            (0..mesh.num_devices()).filter(|position| cell::is_empty(layout, *position)).collect();
        if !empty.is_empty() {
            panel.notes.push(format!("hold nothing: {}", cell::list(&empty)));
        }
        if panel.grid.is_none() {
            panel.notes.push(grid::why_not(layout).to_owned());
        }
        panel
    }

    /// The same with a name above it.
    #[must_use]
    pub fn named(mut self, outer: &str) -> Self {
        self.name = Some(match self.name {
            Some(inner) => format!("{} {inner}", name(outer)),
            None => name(outer),
        });
        self
    }
}

/// A row for the head, and one per device.
fn table(mesh: &DeviceMesh, head: &[&str], words: impl Fn(usize) -> Vec<String>) -> Vec<Vec<String>> {
    let mut rows = vec![head.iter().map(|word| (*word).to_owned()).collect()];
    for position in 0..mesh.num_devices() {
        let mut row = vec![position.to_string(), tree::coordinate(mesh, position)];
        row.extend(words(position));
        rows.push(row);
    }
    rows
}

/// The mesh as it prints, with its names as in the rest of the picture.
fn mesh_name(mesh: &DeviceMesh) -> String {
    let axes = mesh.axis_names().enumerate().map(|(axis, own)| format!("{}={}", name(own), mesh.size(axis)));
    format!("DeviceMesh({})", axes.collect::<Vec<_>>().join(", "))
}

/// The longest name of a user; of a longer one the end is cut off.
const LONGEST_NAME: usize = 48;

/// A name of a user in a picture.
pub(super) fn name(own: &str) -> String {
    cut(&clean(own), LONGEST_NAME)
}
