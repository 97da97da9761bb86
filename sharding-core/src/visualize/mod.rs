//! Seeing: a mesh, a layout or a tensor as text, as SVG and as a page of HTML.
//!
//! [`visualize`] takes what is [`Visualize`] and gives a [`Picture`]: its `Display` is text, [`Picture::svg`] and
//! [`Picture::html`] are the rest. What is drawn:
//!
//! * **Blocks.** A mesh is its grid of devices. A layout is the tensor's own plane, cut where devices stop holding the
//!   same indices, each block as large as its share and named by the devices that hold it: `0, 1` are copies, `0 + 1`
//!   terms of a sum (`max(0, 1)` and so on for the other combinations). Devices that hold nothing are listed, not drawn.
//!   Where a placement is Unknown nobody knows the indices: the blocks are then the mesh's grid.
//! * **A tree** beside them, one level per mesh axis, with the indices, the local shape and the share of every device.
//!   It stands alone where more than two mesh axes have several devices or more than two tensor axes are split.
//! * **A summary** on more than [`MAX_DEVICES`] devices: it takes the same time for a thousand devices and a million.

mod cell;
mod grid;
mod html;
mod panel;
mod summary;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub use panel::Panel;

use crate::{BufferLayout, DeviceMesh, Tensor, TensorBuffer, TensorLayout};
use std::fmt;

/// Up to this many devices are drawn one by one.
pub const MAX_DEVICES: usize = 64;

/// What can be drawn: meshes, layouts, tensors and buffers, references to them, and lists of `(name, value)` pairs, which
/// are drawn side by side.
pub trait Visualize {
    /// The panels of the picture, left to right.
    fn panels(&self) -> Vec<Panel>;
}

/// Draws a mesh, a layout or a tensor, or several of them side by side.
///
/// ```
/// use sharding_core::visualize::visualize;
/// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, TensorLayout};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"])?;
/// let mapping = DeviceMapping::new(&mesh, [Place::Sharded(0), Place::PARTIAL])?;
/// let layout = TensorLayout::new(DType::F32, [5, 8], mapping)?;
/// let picture = visualize(&layout);
/// let want = "
/// f32[5, 8] on DeviceMesh(dp=2, tp=2)
///   dp: Sharded(0)    axis 0 is split
///   tp: Partial(sum)  every device holds a term, the value is their sum
///
///           :           dp=0
///     ┌────────────┐    ├─ tp=0  device 0  [0:3, :]  f32[3, 8]  60%
///     │            │    └─ tp=1  device 1  [0:3, :]  f32[3, 8]  60%
/// 0:3 │   0 + 1    │    dp=1
///     │            │    ├─ tp=0  device 2  [3:5, :]  f32[2, 8]  40%
///     ├────────────┤    └─ tp=1  device 3  [3:5, :]  f32[2, 8]  40%
/// 3:5 │   2 + 3    │
///     │            │
///     └────────────┘
/// ";
/// assert_eq!(picture.to_string().trim(), want.trim());
/// assert!(picture.svg().starts_with("<svg"));
///
/// // Side by side, with names.
/// let both = visualize(&[("before", &layout), ("after", &layout.with_mapping(DeviceMapping::replicated(&mesh))?)]);
/// assert!(both.html().contains("after"));
/// # Ok::<(), sharding_core::Error>(())
/// ```
pub fn visualize<V: Visualize + ?Sized>(what: &V) -> Picture {
    Picture { panels: what.panels() }
}

/// What [`visualize`] gives. `Display` is text of lines at most about 120 columns wide where it can be.
#[derive(Clone, Debug)]
pub struct Picture {
    panels: Vec<Panel>,
}

impl Picture {
    /// An SVG document: the drawing alone, blocks at their true share.
    pub fn svg(&self) -> String {
        svg::document(&self.panels)
    }

    /// A page of HTML that needs nothing else: the drawing, the text of every panel, and a table of its devices. It is
    /// well-formed XML too.
    pub fn html(&self) -> String {
        html::page(&self.panels)
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::picture(&self.panels))
    }
}

impl<V: Visualize + ?Sized> Visualize for &V {
    fn panels(&self) -> Vec<Panel> {
        (**self).panels()
    }
}

impl Visualize for DeviceMesh {
    fn panels(&self) -> Vec<Panel> {
        vec![Panel::mesh(self)]
    }
}

impl Visualize for TensorLayout {
    fn panels(&self) -> Vec<Panel> {
        vec![Panel::layout(self)]
    }
}

impl Visualize for BufferLayout {
    fn panels(&self) -> Vec<Panel> {
        self.as_tensor().panels()
    }
}

impl Visualize for Tensor {
    fn panels(&self) -> Vec<Panel> {
        vec![Panel::tensor(self)]
    }
}

impl Visualize for TensorBuffer {
    fn panels(&self) -> Vec<Panel> {
        self.as_tensor().panels()
    }
}

impl<N: AsRef<str>, V: Visualize> Visualize for [(N, V)] {
    fn panels(&self) -> Vec<Panel> {
        let named = |(name, value): &(N, V)| {
            let panels = value.panels().into_iter();
            panels.map(|panel| panel.named(name.as_ref())).collect::<Vec<_>>()
        };
        self.iter().flat_map(named).collect()
    }
}

impl<N: AsRef<str>, V: Visualize, const K: usize> Visualize for [(N, V); K] {
    fn panels(&self) -> Vec<Panel> {
        self.as_slice().panels()
    }
}

impl<N: AsRef<str>, V: Visualize> Visualize for Vec<(N, V)> {
    fn panels(&self) -> Vec<Panel> {
        self.as_slice().panels()
    }
}
