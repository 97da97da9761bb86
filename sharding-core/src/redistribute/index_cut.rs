//! Index maps cut by placements: which block of an operand each part of a device's result comes from.
//!
//! A box of the result is *affine* if a step on a result axis is always the same step on the operand's axes, so that a
//! strided view of one shard can be it. Where a box reads over the end of an operand's axis (a reshape) it is cut there; where
//! the indices it reads lie on several devices it is cut between them.

use super::overlap;
use crate::backend::{IndexMap, LocalArray, LocalMeta, Piece};
use crate::placement::Ranges;
use crate::{Error, ErrorKind, Region, Result, Shape};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

type Axes<T> = SmallVec<[T; 4]>;

/// A box of a local result that reads an operand in equal steps.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// Which operand.
    pub(crate) operand: usize,
    /// Where it begins in the local result.
    pub(crate) into: Axes<usize>,
    /// Its extents.
    pub(crate) extents: Axes<usize>,
    /// The row-major number of the operand's element that its first element reads.
    number: isize,
    /// The global index of that element.
    at: Axes<isize>,
    /// Steps on the operand's axes per step on each result axis.
    steps: Axes<Axes<isize>>,
    /// The same as row-major numbers.
    strides: Axes<isize>,
}

/// The parts of a row-major number on each axis of a shape; those of a step have its sign.
fn digits(shape: &Shape, mut number: isize) -> Axes<isize> {
    let part = |(row, extent): (isize, &usize)| {
        let part = if *extent == 1 || row == 0 { 0 } else { number / row };
        number -= part * row;
        part
    };
    shape.strides().into_iter().zip(shape.iter()).map(part).collect()
}

impl Cut {
    /// A box of a piece that begins at index `starts` of it; `at` is not known yet.
    fn of(piece: &Piece, shape: &Shape, into: Axes<usize>, starts: &[usize], extents: Axes<usize>) -> Self {
        let first = piece.strides.iter().zip(starts).map(|(stride, i)| stride * *i as isize);
        Self {
            operand: piece.operand,
            into,
            extents,
            number: piece.offset + first.sum::<isize>(),
            at: Axes::new(),
            steps: piece.strides.iter().map(|stride| digits(shape, *stride)).collect(),
            strides: piece.strides.clone(),
        }
    }

    pub(crate) fn elements(&self) -> usize {
        self.extents.iter().product()
    }

    /// The box of its operand that it reads, if that is a whole one: every result axis moves along at most one axis of the
    /// operand, and every step is by one index.
    fn block(&self) -> Option<Axes<Range<usize>>> {
        let mut movers: Axes<usize> = Axes::new();
        for k in 0..self.at.len() {
            for axis in self.movers(k) {
                if self.step(axis, k).0.abs() != 1 || movers.contains(&axis) {
                    return None;
                }
                movers.push(axis);
            }
            if self.movers(k).count() > 1 {
                return None;
            }
        }
        let range = |k| {
            let (low, high) = self.span(k);
            usize::try_from(low).ok()?.checked_add_signed(high - low + 1).map(|end| low as usize..end)
        };
        (0..self.at.len()).map(range).collect()
    }

    /// The step of result axis `axis` on operand axis `k`, and the number of steps.
    fn step(&self, axis: usize, k: usize) -> (isize, isize) {
        let step = self.steps.get(axis).and_then(|steps| steps.get(k)).copied().unwrap_or(0);
        (step, self.extents.get(axis).map_or(0, |extent| extent.saturating_sub(1) as isize))
    }

    /// The least and the greatest index that it reads on an operand axis.
    fn span(&self, k: usize) -> (isize, isize) {
        let at = self.at.get(k).copied().unwrap_or(0);
        let (mut low, mut high) = (at, at);
        for axis in 0..self.extents.len() {
            let (step, count) = self.step(axis, k);
            let reach = step.saturating_mul(count);
            if reach < 0 {
                low = low.saturating_add(reach);
            } else {
                high = high.saturating_add(reach);
            }
        }
        (low, high)
    }

    /// The result axes that move along an operand axis, the outermost first.
    fn movers(&self, k: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.extents.len()).filter(move |axis| {
            let (step, count) = self.step(*axis, k);
            step != 0 && count > 0
        })
    }

    /// The part of `len` indices of a result axis from `start`; `at` follows only as long as no axis is left.
    fn part(&self, axis: usize, start: usize, len: usize) -> Self {
        let mut part = self.clone();
        if let (Some(into), Some(extent)) = (part.into.get_mut(axis), part.extents.get_mut(axis)) {
            *into += start;
            *extent = len;
        }
        part.number += self.strides.get(axis).copied().unwrap_or(0) * start as isize;
        for (k, at) in part.at.iter_mut().enumerate() {
            *at += self.step(axis, k).0 * start as isize;
        }
        part
    }
}

/// Cuts the part of a map's result that lies in a region into affine boxes.
///
/// # Errors
/// [`ErrorKind::Internal`] for a map that reads outside its operands, or more boxes than `most`.
pub(crate) fn affine(map: &IndexMap, operands: &[&Shape], region: &Region, most: usize) -> Result<Vec<Cut>> {
    let mut cuts = Vec::new();
    for piece in &map.pieces {
        let Some(shape) = operands.get(piece.operand) else {
            return Err(Error::new(ErrorKind::Internal, "an index map has a piece of no operand"));
        };
        each_box(piece, region, |into, starts, extents| {
            let whole = Cut::of(piece, shape, into, &starts, extents);
            resolve(whole, shape, most, &mut cuts)
        })?;
    }
    Ok(cuts)
}

/// Calls `f` with the boxes that a piece and a region have in common: where they begin in the local result and in the
/// piece, and their extents.
fn each_box(
    piece: &Piece,
    region: &Region,
    mut f: impl FnMut(Axes<usize>, Axes<usize>, Axes<usize>) -> Result<()>,
) -> Result<()> {
    let runs: Axes<SmallVec<[super::Run; 2]>> = piece
        .into
        .iter()
        .zip(region)
        .map(|(range, held)| overlap(std::slice::from_ref(range), held))
        .collect();
    let count: usize = runs.iter().map(SmallVec::len).product();
    for mut number in 0..count {
        let (mut into, mut starts, mut extents) = (Axes::new(), Axes::new(), Axes::new());
        for runs in &runs {
            let Some(run) = runs.get(number % runs.len()) else { continue };
            number /= runs.len();
            into.push(run.into);
            starts.push(run.from);
            extents.push(run.len);
        }
        f(into, starts, extents)?;
    }
    Ok(())
}

fn resolve(whole: Cut, shape: &Shape, most: usize, cuts: &mut Vec<Cut>) -> Result<()> {
    let all = shape.elements() as isize;
    let mut open = vec![whole];
    while let Some(mut cut) = open.pop() {
        if !(0..all).contains(&cut.number) {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("an index map reads element {} of an operand of shape {shape}", cut.number),
            ));
        }
        cut.at = digits(shape, cut.number);
        let over = shape.iter().enumerate().find(|(k, extent)| {
            let (low, high) = cut.span(*k);
            low < 0 || high >= **extent as isize
        });
        let Some((k, extent)) = over else {
            if cuts.len() >= most {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("an index map has more than {most} boxes"),
                ));
            }
            cuts.push(cut);
            continue;
        };
        let at = cut.at.get(k).copied().unwrap_or(0);
        // How many indices of a result axis alone stay inside.
        let alone = |axis: usize| {
            let step = cut.step(axis, k).0;
            let room = if step > 0 { *extent as isize - 1 - at } else { at };
            (room / step.abs()) as usize + 1
        };
        let len = |axis: usize| cut.extents.get(axis).copied().unwrap_or(1);
        let by_one = cut.movers(k).map(|axis| (axis, alone(axis))).find(|(axis, stays)| *stays < len(*axis));
        let halved = || cut.movers(k).next().map(|axis| (axis, len(axis) / 2));
        let Some((axis, first)) = by_one.or_else(halved) else {
            return Err(Error::new(ErrorKind::Internal, "an index map cannot be cut"));
        };
        open.push(cut.part(axis, first, len(axis) - first));
        open.push(cut.part(axis, 0, first));
    }
    Ok(())
}

/// The block of an operand that a device holds by one range per axis, and where the block begins in its shard.
struct Block {
    ranges: Axes<Range<usize>>,
    start: Axes<usize>,
}

fn blocks(region: &Region) -> impl Iterator<Item = Block> + '_ {
    let count: usize = region.iter().map(SmallVec::len).product();
    (0..count).map(move |mut number| {
        let mut block = Block { ranges: Axes::new(), start: Axes::new() };
        for ranges in region {
            let i = number % ranges.len();
            number /= ranges.len();
            block.start.push(ranges.iter().take(i).map(|range| range.len()).sum());
            block.ranges.push(ranges.get(i).cloned().unwrap_or(0..0));
        }
        block
    })
}

/// Calls `f` with the parts of a box that read a block only.
fn inside(cut: &Cut, block: &Block, mut f: impl FnMut(Cut)) {
    let mut open: SmallVec<[Cut; 4]> = smallvec![cut.clone()];
    'next: while let Some(cut) = open.pop() {
        let mut crossed = None;
        for (k, range) in block.ranges.iter().enumerate() {
            let ((low, high), (start, end)) = (cut.span(k), (range.start as isize, range.end as isize));
            if high < start || low >= end {
                continue 'next;
            }
            if crossed.is_none() && (low < start || high >= end) {
                crossed = Some((k, start, end, low, high));
            }
        }
        let Some((k, start, end, low, high)) = crossed else {
            f(cut);
            continue;
        };
        for axis in cut.movers(k) {
            // Of this result axis only indices for which the others can still reach the block.
            let (step, count) = cut.step(axis, k);
            let (own_low, own_high) = ((step * count).min(0), (step * count).max(0));
            let (least, most) = (low - own_low, high - own_high);
            let (first, last) = if step > 0 {
                (
                    (start - most).max(0).div_euclid(step) + isize::from((start - most).max(0) % step != 0),
                    (end - 1 - least).div_euclid(step),
                )
            } else {
                let down = -step;
                let over = (least - end + 1).max(0);
                (over.div_euclid(down) + isize::from(over % down != 0), (most - start).div_euclid(down))
            };
            let (first, last) = (first.max(0), last.min(count));
            if first > last {
                continue 'next;
            }
            if first > 0 || last < count {
                open.push(cut.part(axis, first as usize, (last - first + 1) as usize));
                continue 'next;
            }
        }
        if let Some(axis) = cut.movers(k).next() {
            let len = cut.extents.get(axis).copied().unwrap_or(1);
            open.push(cut.part(axis, len / 2, len - len / 2));
            open.push(cut.part(axis, 0, len / 2));
        }
    }
}

/// How many elements of a box come from a region of its operand.
pub(crate) fn held(cut: &Cut, region: &Region) -> usize {
    let mut elements = 0;
    for block in blocks(region) {
        inside(cut, &block, |part| elements += part.elements());
    }
    elements
}

/// What a region of a map's result takes from others than those that hold `own` of each operand.
pub(crate) struct Received {
    /// The elements; one that whole boxes read several times comes once.
    pub(crate) elements: usize,
    /// The boxes of which the region is made.
    pub(crate) boxes: usize,
}

/// Makes one of boxes that differ on one axis only and overlap or continue each other there.
fn unite(boxes: &mut Vec<Axes<Range<usize>>>) {
    let axes = boxes.first().map_or(0, SmallVec::len);
    for k in 0..axes {
        if boxes.len() < 2 {
            return;
        }
        let elsewhere = |block: &Axes<Range<usize>>| -> Axes<(usize, usize)> {
            let others = block.iter().enumerate().filter(|(axis, _)| *axis != k);
            others.map(|(_, range)| (range.start, range.end)).collect()
        };
        let start = |block: &Axes<Range<usize>>| block.get(k).map_or(0, |range| range.start);
        boxes.sort_unstable_by_key(|block| (elsewhere(block), start(block)));
        boxes.dedup_by(|next, last| {
            let (Some(more), true) = (next.get(k), elsewhere(next) == elsewhere(last)) else { return false };
            match last.get_mut(k) {
                Some(range) if more.start <= range.end => {
                    range.end = range.end.max(more.end);
                    true
                }
                _ => false,
            }
        });
    }
}

/// How many elements of a box are not in a region.
fn lacking(block: &Axes<Range<usize>>, own: &Region) -> usize {
    let all: usize = block.iter().map(|range| range.len()).product();
    let has =
        block.iter().zip(own).map(|(range, own)| super::overlap::common(std::slice::from_ref(range), own));
    all - has.product::<usize>()
}

/// Counts what a region of a map's result receives; see [`affine`] for `most`.
///
/// # Errors
/// As [`affine`].
pub(crate) fn received(
    map: &IndexMap,
    operands: &[&Shape],
    region: &Region,
    own: impl Fn(usize) -> Region,
    most: usize,
) -> Result<Received> {
    let cuts = affine(map, operands, region, most)?;
    let mut elements = 0;
    for operand in 0..operands.len() {
        let mut cuts = cuts.iter().filter(|cut| cut.operand == operand).peekable();
        if cuts.peek().is_none() {
            continue;
        }
        let own = own(operand);
        let mut read = Vec::new();
        for cut in cuts {
            match cut.block() {
                Some(block) => read.push(block),
                None => elements += cut.elements() - held(cut, &own),
            }
        }
        unite(&mut read);
        elements += read.iter().map(|block| lacking(block, &own)).sum::<usize>();
    }
    Ok(Received { elements, boxes: cuts.len() })
}

/// A box of a shard that is read in equal steps, whatever memory the shard lies in.
pub(crate) struct Part {
    /// Where it lands in the local result.
    pub(crate) into: Axes<usize>,
    extents: Axes<usize>,
    /// The index of its first element in the shard.
    start: Axes<isize>,
    /// Steps on the shard's axes per step on each result axis.
    steps: Axes<Axes<isize>>,
}

impl Part {
    /// The box of a shard.
    pub(crate) fn view(&self, shard: &LocalArray) -> LocalArray {
        let meta = shard.meta();
        let sum = |steps: &Axes<isize>| {
            steps.iter().zip(&meta.strides).map(|(step, stride)| step * stride).sum::<isize>()
        };
        let view = LocalMeta {
            dtype: meta.dtype,
            shape: self.extents.iter().copied().collect(),
            strides: self.steps.iter().map(sum).collect(),
            offset: meta.offset.saturating_add_signed(sum(&self.start)),
        };
        LocalArray::new(view, shard.storage().clone())
    }
}

/// Calls `f` with what a box takes from a shard that holds a region of its operand. Gives the number of elements.
pub(crate) fn parts(cut: &Cut, region: &Region, mut f: impl FnMut(Part)) -> usize {
    let mut elements = 0;
    for block in blocks(region) {
        inside(cut, &block, |part| {
            elements += part.elements();
            let origin = part.at.iter().zip(&block.ranges).zip(&block.start);
            let start =
                origin.map(|((at, range), start)| at - range.start as isize + *start as isize).collect();
            f(Part { into: part.into, extents: part.extents, start, steps: part.steps });
        });
    }
    elements
}

/// The region of one device of `ways` along one mesh axis, by one placement.
pub(crate) fn region_of(shape: &Shape, place: crate::Place, ways: usize, part: usize) -> Region {
    let whole = |extent: usize| -> Ranges { smallvec![0..extent] };
    let split = |extent: usize| match place {
        crate::Place::Custom(custom) => custom.placement().ranges(extent, ways, part),
        _ => smallvec![crate::split::balanced(extent, ways, part)],
    };
    let ranges = |(axis, extent): (usize, &usize)| {
        if place.tensor_axis() == Some(axis) { split(*extent) } else { whole(*extent) }
    };
    shape.iter().enumerate().map(ranges).collect()
}
