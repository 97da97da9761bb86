//! Collectives: how shards of one tensor change their placements.

use super::{IndexMap, LocalArrays, Support};
use crate::plan::{CostModel, StepQuery};
use crate::redistribute::index_cut::{self, Cut};
use crate::{Device, Error, ErrorKind, ReduceOp, Result, Shape, TensorLayout};
use smallvec::SmallVec;
use std::fmt;

/// Up to so many devices are asked one by one what they hold for a step.
const MAX_DEVICES: usize = 64;

/// What kind of exchange a [`Step`] is. Which ranges go where follows from its layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// Each device slices what it holds; local.
    LocalSlice,
    /// The first device of each group keeps its copy (or every device its own piece), the rest holds the identity;
    /// local.
    KeepOneCopy(ReduceOp),
    /// Pieces are joined on every device of the group.
    AllGather,
    /// The parts of the group are combined on every device.
    AllReduce(ReduceOp),
    /// The parts are combined, each device keeps a piece.
    ReduceScatter(ReduceOp),
    /// Pieces of some tensor axes are exchanged for pieces of others.
    AllToAll,
    /// Index ranges change their device (boundary rows, other device orders).
    Permute,
    /// Shards move to another mesh: only the overlapping ranges of each target device.
    Move,
    /// The placement of a mesh axis of size 1 is renamed; no data is touched.
    Relabel,
}

impl StepKind {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            StepKind::LocalSlice => "local_slice",
            StepKind::KeepOneCopy(_) => "keep_one_copy",
            StepKind::AllGather => "all_gather",
            StepKind::AllReduce(_) => "all_reduce",
            StepKind::ReduceScatter(_) => "reduce_scatter",
            StepKind::AllToAll => "all_to_all",
            StepKind::Permute => "permute",
            StepKind::Move => "move",
            StepKind::Relabel => "relabel",
        }
    }
    /// The combination, for the kinds that combine.
    pub const fn reduce_op(self) -> Option<ReduceOp> {
        match self {
            StepKind::AllReduce(op) | StepKind::ReduceScatter(op) => Some(op),
            _ => None,
        }
    }
    /// Whether devices exchange data.
    pub const fn communicates(self) -> bool {
        !matches!(self, StepKind::LocalSlice | StepKind::KeepOneCopy(_) | StepKind::Relabel)
    }
}

/// One step of a redistribution, over one or several mesh axes at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The kind of exchange.
    pub kind: StepKind,
    /// The mesh axes whose groups take part, ascending. All axes for a move between meshes.
    pub axes: SmallVec<[usize; 4]>,
    /// The layout before.
    pub source: TensorLayout,
    /// The layout after.
    pub target: TensorLayout,
    /// Its price in the cost model that planned it; bytes per device under the volume model.
    pub cost: f64,
}

impl Step {
    /// The names of the mesh axes.
    pub fn axis_names(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| self.source.mesh().axis_name(*axis))
    }

    /// The most bytes that one device holds of what it reads and of what it makes together; `usize::MAX` where they do not
    /// fit. On more than 64 devices the most of each, where not every device that holds most of one holds most of the other.
    pub fn peak(&self) -> usize {
        let (source, target) = (&self.source, &self.target);
        let (before, after) = (source.largest_shard_bytes(), target.largest_shard_bytes());
        let same = source.mesh() == target.mesh();
        let alike = same && source.first_holds_most() && target.first_holds_most();
        let devices = [source, target].map(|layout| layout.mesh().num_devices());
        match self.kind {
            // What is relabelled is one thing, and a slice is a view.
            _ if !self.makes() => before.max(after),
            _ if alike || devices.iter().any(|devices| *devices > MAX_DEVICES) => {
                before.saturating_add(after)
            }
            _ => {
                let bytes = |layout: &TensorLayout, device: Device| {
                    let held = layout.mesh().position_of(device).map(|position| layout.local_shape(position));
                    held.map_or(0, |shape| shape.elements().saturating_mul(layout.dtype().size()))
                };
                let all = source.mesh().devices().chain(target.mesh().devices());
                all.map(|device| bytes(source, device).saturating_add(bytes(target, device)))
                    .max()
                    .unwrap_or(0)
            }
        }
    }

    /// Whether it makes arrays: what is relabelled stays what it is, and a slice is a view.
    pub(crate) fn makes(&self) -> bool {
        !matches!(self.kind, StepKind::Relabel | StepKind::LocalSlice)
    }

    /// The `tracing` span in which it runs on behalf of an op: `redistribute` at level INFO, with the fields `op`, `kind`
    /// (as [`StepKind::name`]), `axes` (names, with commas between), `from` (a layout), `to` (a mapping) and `bytes` (as
    /// [`Step::bytes`]); all worked out where somebody subscribes.
    pub fn span(&self, op: &'static str) -> tracing::Span {
        tracing::info_span!(
            "redistribute",
            op,
            kind = self.kind.name(),
            axes = %Axes(self, ","),
            from = %self.source,
            to = %self.target.mapping(),
            bytes = self.bytes(),
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, axes) = (self.kind.name(), Axes(self, ", "));
        write!(f, "{kind}({axes}) {} -> {}", self.source.mapping(), self.target.mapping())
    }
}

/// The names of the mesh axes with something in between.
struct Axes<'a>(&'a Step, &'a str);

impl fmt::Display for Axes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.0.axis_names().enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { self.1 })?;
        }
        Ok(())
    }
}

/// A movement op over shards: every element of the result is a copy of one of the operands', wherever these lie.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// Where the elements come from, by global indices.
    pub map: &'a IndexMap,
    /// The layouts of the operands.
    pub operands: &'a [TensorLayout],
    /// The layout of the result, on the operands' mesh and of the map's shape. Where a placement of it is Partial or Unknown,
    /// so are the operands that the map reads.
    pub result: &'a TensorLayout,
    /// The mesh axes along which elements change their device, ascending.
    pub axes: &'a [usize],
}

impl Exchange<'_> {
    /// The layout of an operand.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if there is none.
    pub(crate) fn operand(&self, i: usize) -> Result<&TensorLayout> {
        self.operands
            .get(i)
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("there is no operand {i}")))
    }

    /// The parts of the result at a position, each read in equal steps from one operand.
    pub(crate) fn cuts(&self, position: usize) -> Result<Vec<Cut>> {
        index_cut::affine(self.map, &self.shapes(), &self.result.region(position), usize::MAX)
    }

    fn shapes(&self) -> SmallVec<[&Shape; 4]> {
        self.operands.iter().map(TensorLayout::shape).collect()
    }

    /// The positions that together hold an operand as `position` sees it: those along the mesh axes that split it.
    pub(crate) fn owners(&self, operand: usize, position: usize) -> Result<SmallVec<[usize; 8]>> {
        let layout = self.operand(operand)?;
        let splits = |axis: &usize| layout.mapping().place(*axis).tensor_axis().is_some();
        let axes: SmallVec<[usize; 8]> = (0..layout.mesh().ndim()).filter(splits).collect();
        Ok(layout.mesh().group(position, &axes))
    }

    /// The bytes that the device at a position receives from others.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] for a map that does not fit the layouts.
    pub fn received(&self, position: usize) -> Result<usize> {
        let shapes = self.shapes();
        let own = |operand: usize| {
            self.operands.get(operand).map(|layout| layout.region(position)).unwrap_or_default()
        };
        let region = self.result.region(position);
        let received = index_cut::received(self.map, &shapes, &region, own, usize::MAX)?;
        Ok(received.elements * self.result.dtype().size())
    }

    /// The most bytes that one device receives from others; of a mesh of more than 64 some devices are asked: the first, the
    /// last, and such as are spread along every mesh axis.
    ///
    /// # Errors
    /// As [`Exchange::received`].
    pub fn most_received(&self) -> Result<usize> {
        asked(self.result.mesh().num_devices())
            .try_fold(0, |most, position| Ok(most.max(self.received(position)?)))
    }

    /// The most bytes that one device holds of what it reads and of what it makes together; `usize::MAX` where they do not
    /// fit.
    pub fn peak(&self) -> usize {
        let all = self.operands.iter().chain([self.result]).map(TensorLayout::largest_shard_bytes);
        all.fold(0, usize::saturating_add)
    }

    /// What it costs under a model, if a device receives at most so many bytes.
    pub fn price(&self, cost: &dyn CostModel, received: usize) -> f64 {
        let mesh = self.result.mesh();
        cost.step(&StepQuery {
            kind: StepKind::Permute,
            mesh,
            axes: self.axes,
            group: self.axes.iter().map(|axis| mesh.size(*axis)).product(),
            bytes: self.result.bytes() as f64,
            received: received as f64,
        })
    }

    /// The names of the mesh axes.
    pub fn axis_names(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| self.result.mesh().axis_name(*axis))
    }
}

/// Up to 64 positions of so many. Where they are fewer than all, steps of the golden ratio have no common factor with the
/// sizes of mesh axes: equal steps would meet one coordinate of a mesh axis again and again.
fn asked(devices: usize) -> impl Iterator<Item = usize> {
    const ASKED: usize = 64;
    let step = if devices <= ASKED { 1 } else { (devices as f64 * 0.618_033_988_749_895) as usize | 1 };
    let last = devices.saturating_sub(1);
    (0..devices.min(ASKED)).map(move |i| if i + 1 == ASKED { last } else { i.wrapping_mul(step) % devices })
}

impl fmt::Display for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("exchange(")?;
        for (i, name) in self.axis_names().enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(")")?;
        for layout in self.operands {
            write!(f, " {layout}")?;
        }
        write!(f, " -> {}", self.result)
    }
}

/// Collectives between the devices of one backend.
///
/// `run` is called once per process and step with all shards of the source that the process addresses, in the order
/// of [`Backend::positions`](super::Backend::positions), and gives those of the target. Every process makes the
/// same calls in the same order. Shards come by value: where nobody else holds a storage, it may be reused.
///
/// Reductions follow one fixed binary tree over positions in the group: the left half has `ceil(n/2)` members.
/// Results are bit-identical on every device and run. Ranges may be uneven and empty.
pub trait Collectives: Send + Sync {
    /// Whether such a step can run.
    fn supports(&self, step: &Step) -> Support;

    /// Runs a step.
    ///
    /// # Errors
    /// If a transfer fails, processes disagree or are lost, or a late failure is due.
    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays>;

    /// Runs a movement op over shards: `shards` are those of each operand, the result those of its layout. Only what a
    /// device does not hold is moved.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn exchange(
        &self,
        op: &'static str,
        exchange: &Exchange<'_>,
        shards: &[LocalArrays],
    ) -> Result<LocalArrays>;
}

#[cfg(test)]
mod tests {
    use super::asked;

    #[test]
    fn the_devices_asked_differ_along_every_mesh_axis() {
        assert_eq!(asked(64).collect::<Vec<_>>(), (0..64).collect::<Vec<_>>());
        assert_eq!(asked(3).collect::<Vec<_>>(), [0, 1, 2]);
        for sizes in [[1024, 64], [64, 1024], [1024, 1024], [5, 3000], [100, 2], [65, 1], [4096, 16]] {
            let devices: usize = sizes.iter().product();
            let all: Vec<usize> = asked(devices).collect();
            assert!(all.len() == 64 && all.contains(&0) && all.contains(&(devices - 1)), "{sizes:?}");
            for (size, stride) in [(sizes[0], sizes[1]), (sizes[1], 1)] {
                let mut seen: Vec<usize> = all.iter().map(|position| position / stride % size).collect();
                seen.sort_unstable();
                seen.dedup();
                assert!(seen.len() * 2 >= size.min(64), "{} of {size} in {sizes:?}", seen.len());
            }
        }
    }
}
