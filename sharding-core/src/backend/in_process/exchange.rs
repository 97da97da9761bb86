//! Steps that only move data: every device gets its new index ranges from those that hold them.

use super::{Call, Share};
use crate::backend::{LocalArray, LocalArrays, LocalMeta, Move, StepKind};
use crate::redistribute::{Run, overlap, whole_shards};
use crate::tensor::device_at;
use crate::{Error, ErrorKind, Region, Result, Shape, TensorLayout};
use smallvec::{SmallVec, smallvec};

/// Views of source shards and the indices of the new shard at which they land; disjoint, and together all of it.
pub(crate) type Pieces = SmallVec<[(LocalArray, SmallVec<[usize; 4]>); 2]>;

impl Call<'_> {
    pub(super) fn exchange(&self) -> Result<LocalArrays> {
        let step = self.step;
        let target = &step.target;
        let elsewhere = step.kind == StepKind::Move && target.mesh() != self.source_mesh();
        let other = if elsewhere { Some(self.backend.positions(target.mesh())?) } else { None };
        let positions = other.as_ref().unwrap_or(self.positions);
        let shares = self.shares(target, positions)?;
        let mut made: SmallVec<[LocalArray; 2]> = SmallVec::new();
        let mut copies: SmallVec<[(usize, Pieces); 2]> = SmallVec::new();
        for (position, share) in positions.iter().zip(&shares) {
            if *share != Share::Own {
                continue;
            }
            let device = device_at(target.mesh(), *position)?;
            let (shape, pieces) =
                pieces_of(step.kind, &step.source, target, &step.axes, *position, |owner| self.shard(owner))?;
            let near = pieces.iter().all(|(piece, _)| self.backend.shares_memory(piece.device(), device));
            let view = if near { joined(&pieces, &shape) } else { None };
            match view {
                Some(view) => made.push(view),
                None => {
                    let into = self.alloc(device, step.source.dtype(), &shape)?;
                    if into.elements() > 0 {
                        copies.push((made.len(), pieces));
                    }
                    made.push(into);
                }
            }
        }
        self.paste(&mut made, &copies)?;
        self.spread(&shares, made)
    }

    /// Copies pieces into the shards of those numbers, which ascend.
    pub(super) fn paste(&self, made: &mut [LocalArray], copies: &[(usize, Pieces)]) -> Result<()> {
        if copies.is_empty() {
            return Ok(());
        }
        let mut rest = copies.iter().peekable();
        let mut moves: SmallVec<[Move<'_>; 2]> = SmallVec::with_capacity(copies.len());
        for (i, into) in made.iter_mut().enumerate() {
            if let Some((_, pieces)) = rest.next_if(|(to, _)| *to == i) {
                moves.push(Move { op: self.op, pieces, into });
            }
        }
        self.backend.copy(&mut moves)
    }
}

/// The shape of the new shard at a position of the target, and what it consists of. `shard` gives the source's shards.
pub(crate) fn pieces_of<'a>(
    kind: StepKind,
    source: &TensorLayout,
    target: &TensorLayout,
    axes: &[usize],
    position: usize,
    shard: impl Fn(usize) -> Result<&'a LocalArray>,
) -> Result<(Shape, Pieces)> {
    let from = source.mesh();
    let moves = kind == StepKind::Move;
    if moves && whole_shards(source, target) {
        // The shape need not be that of a layout with Unknown placements.
        let array = shard(position)?;
        let start = SmallVec::from_elem(0, array.shape().len());
        return Ok((array.shape().clone(), smallvec![(array.clone(), start)]));
    }
    let splits = |axis: &usize| source.mapping().place(*axis).tensor_axis().is_some();
    let owners = if moves {
        let axes: SmallVec<[usize; 8]> = (0..from.ndim()).filter(splits).collect();
        from.group(near(source, target, position), &axes)
    } else {
        let axes: SmallVec<[usize; 8]> = axes.iter().copied().filter(splits).collect();
        from.group(position, &axes)
    };
    let new = target.region(position);
    let shape: Shape =
        new.iter().map(|ranges| ranges.iter().map(|range| range.len()).sum::<usize>()).collect();
    let mut pieces = Pieces::new();
    let elements = shape.elements();
    let mut covered = 0;
    for owner in owners {
        if covered == elements {
            break;
        }
        covered += cut(shard(owner)?, &source.region(owner), &new, &mut pieces);
    }
    if covered != elements {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("{} of {source} to {target} lacks ranges of device {position}", kind.name()),
        ));
    }
    Ok((shape, pieces))
}

/// The source position whose replica serves a target position: that of the same device, else one chosen so that the
/// replicas share the work.
fn near(source: &TensorLayout, target: &TensorLayout, position: usize) -> usize {
    let (from, to) = (source.mesh(), target.mesh());
    let same = to.device(position).and_then(|device| from.position_of(device));
    same.unwrap_or(position % from.num_devices())
}

/// What a shard has of a region.
pub(super) fn common_pieces(shard: &LocalArray, old: &Region, new: &Region) -> Pieces {
    let mut pieces = Pieces::new();
    cut(shard, old, new, &mut pieces);
    pieces
}

/// Appends what a shard has of a region; gives the number of elements.
fn cut(shard: &LocalArray, old: &Region, new: &Region, pieces: &mut Pieces) -> usize {
    // One range on either side of every axis, the usual case: one piece, or none.
    let one = old.iter().zip(new).all(|(old, new)| old.len() == 1 && new.len() == 1);
    if !one {
        return cut_ranges(shard, old, new, pieces);
    }
    let mut meta = shard.meta().clone();
    let mut start: SmallVec<[usize; 4]> = SmallVec::new();
    let mut elements = 1;
    let axes = meta.shape.iter_mut().zip(&meta.strides);
    for ((extent, stride), (old, new)) in axes.zip(old.iter().flatten().zip(new.iter().flatten())) {
        let (from, end) = (old.start.max(new.start), old.end.min(new.end));
        if from >= end {
            return 0;
        }
        *extent = end - from;
        meta.offset = meta.offset.saturating_add_signed(stride * (from - old.start) as isize);
        start.push(from - new.start);
        elements *= end - from;
    }
    pieces.push((LocalArray::new(meta, shard.storage().clone()), start));
    elements
}

/// The same for any lists of ranges.
fn cut_ranges(shard: &LocalArray, old: &Region, new: &Region, pieces: &mut Pieces) -> usize {
    let mut runs: SmallVec<[SmallVec<[Run; 2]>; 4]> = SmallVec::with_capacity(new.len());
    for (old, new) in old.iter().zip(new) {
        let common = overlap(old, new);
        if common.is_empty() {
            return 0;
        }
        runs.push(common);
    }
    let mut at: SmallVec<[usize; 4]> = SmallVec::from_elem(0, runs.len());
    let mut elements = 0;
    loop {
        let mut view = shard.clone();
        let mut start: SmallVec<[usize; 4]> = SmallVec::with_capacity(runs.len());
        let mut count = 1;
        for (axis, (runs, i)) in runs.iter().zip(&at).enumerate() {
            let Some(run) = runs.get(*i) else { continue };
            view = view.slice(axis, run.from, run.len);
            start.push(run.into);
            count *= run.len;
        }
        pieces.push((view, start));
        elements += count;
        // The next combination of runs, the last axis fastest.
        let next = at.iter_mut().zip(&runs).rev().any(|(i, runs)| {
            *i += 1;
            let more = *i < runs.len();
            if !more {
                *i = 0;
            }
            more
        });
        if !next {
            return elements;
        }
    }
}

/// The pieces as one view, where they lie in one storage just as the whole would.
pub(super) fn joined(pieces: &Pieces, shape: &Shape) -> Option<LocalArray> {
    let (first, start) = pieces.first()?;
    if pieces.len() == 1 {
        return (first.shape() == shape).then(|| first.clone());
    }
    // The element at index 0 of the whole, if all strides are those of the first piece.
    let meta = first.meta();
    let place = |meta: &LocalMeta, start: &[usize]| {
        let steps = meta.strides.iter().zip(start).map(|(stride, i)| stride * *i as isize);
        meta.offset as isize - steps.sum::<isize>()
    };
    let origin = place(meta, start);
    let fits = pieces.iter().skip(1).all(|(piece, start)| {
        std::ptr::addr_eq(std::sync::Arc::as_ptr(piece.storage()), std::sync::Arc::as_ptr(first.storage()))
            && piece.meta().strides == meta.strides
            && place(piece.meta(), start) == origin
    });
    if !fits {
        return None;
    }
    let meta = LocalMeta {
        dtype: meta.dtype,
        shape: shape.clone(),
        strides: meta.strides.clone(),
        offset: usize::try_from(origin).ok()?,
    };
    Some(LocalArray::new(meta, first.storage().clone()))
}
