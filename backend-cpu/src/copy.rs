//! Copies: strided reads and writes, index maps, and regions between arrays.

use crate::device::is_large;
use crate::element::{Item, Slot, with_dtype};
use crate::storage::{View, in_bounds, internal, overwrite, owned, unsupported};
use rayon::prelude::*;
use sharding_core::backend::{IndexMap, LocalArray, LocalMeta, Move, Piece, Support};
use sharding_core::{Result, Shape};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Elements per task of the pool.
const TASK: usize = 1 << 16;

/// A walk over the elements of a strided view in row-major order: axes that lie behind each other in memory are
/// one, those of extent 1 none.
pub(crate) struct Walk {
    /// (extent, stride), outermost first.
    axes: SmallVec<[(usize, isize); 4]>,
    offset: isize,
}

impl Walk {
    /// The walk over a view of at least one element.
    pub(crate) fn new(extents: &[usize], strides: &[isize], offset: isize) -> Self {
        let mut axes: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        for (extent, stride) in extents.iter().zip(strides) {
            match axes.last_mut() {
                _ if *extent == 1 => {}
                Some((outer, step)) if *step == *stride * *extent as isize => {
                    *outer *= extent;
                    *step = *stride;
                }
                _ => axes.push((*extent, *stride)),
            }
        }
        Self { axes, offset }
    }

    /// The walk over a view that is broadcast to `shape`; `None` where it does not fit.
    pub(crate) fn broadcast(
        extents: &[usize],
        strides: &[isize],
        offset: isize,
        shape: &[usize],
    ) -> Option<Self> {
        let lead = shape.len().checked_sub(extents.len())?;
        let mut steps: SmallVec<[isize; 8]> = SmallVec::from_elem(0, shape.len());
        for (step, ((have, stride), want)) in
            steps[lead..].iter_mut().zip(extents.iter().zip(strides).zip(&shape[lead..]))
        {
            if have == want {
                *step = *stride;
            } else if *have != 1 {
                return None;
            }
        }
        Some(Self::new(shape, &steps, offset))
    }

    /// The place of the one element that is read again and again, if it is so.
    pub(crate) fn splat(&self) -> Option<usize> {
        self.axes.iter().all(|(_, stride)| *stride == 0).then_some(self.offset as usize)
    }

    /// The same walk from another first place.
    pub(crate) fn shifted(&self, offset: isize) -> Self {
        Self { axes: self.axes.clone(), offset }
    }

    /// The places of its first `len` elements.
    pub(crate) fn places(&self, len: usize) -> Vec<isize> {
        let mut places = Vec::with_capacity(len);
        self.runs(0, len, |at, len, stride| places.extend((0..len as isize).map(|i| at + i * stride)));
        places
    }

    /// Calls `run(at, len, stride)` for the stretches of memory that hold elements `start..start + len`, in order.
    fn runs(&self, start: usize, len: usize, mut run: impl FnMut(isize, usize, isize)) {
        let Some(((inner, stride), outer)) = self.axes.split_last() else {
            // One element.
            return if len > 0 {
                run(self.offset, len, 0)
            };
        };
        // The index of the first element on every outer axis, and its place.
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, outer.len());
        let (mut rest, mut skip) = (start / inner, start % inner);
        let mut base = self.offset;
        for (i, (extent, step)) in index.iter_mut().zip(outer).rev() {
            *i = rest % extent;
            rest /= extent;
            base += *i as isize * step;
        }
        let mut left = len;
        while left > 0 {
            let take = left.min(inner - skip);
            run(base + skip as isize * stride, take, *stride);
            left -= take;
            skip = 0;
            for (i, (extent, step)) in index.iter_mut().zip(outer).rev() {
                *i += 1;
                base += step;
                if *i < *extent {
                    break;
                }
                base -= *extent as isize * step;
                *i = 0;
            }
        }
    }

    /// Elements `start..start + out.len()` of the walk over a storage.
    pub(crate) fn read<T: Copy, O: Slot<T>>(&self, data: &[T], start: usize, out: &mut [O]) {
        let mut rest = out;
        self.runs(start, rest.len(), |at, len, stride| {
            let (slots, tail) = std::mem::take(&mut rest).split_at_mut(len);
            rest = tail;
            let at = at as usize;
            match stride {
                0 => slots.iter_mut().for_each(|slot| slot.put(data[at])),
                1 => slots.iter_mut().zip(&data[at..at + len]).for_each(|(slot, x)| slot.put(*x)),
                2.. => {
                    let from = data[at..].iter().step_by(stride as usize);
                    slots.iter_mut().zip(from).for_each(|(slot, x)| slot.put(*x));
                }
                _ => {
                    let from = data[..=at].iter().rev().step_by(stride.unsigned_abs());
                    slots.iter_mut().zip(from).for_each(|(slot, x)| slot.put(*x));
                }
            }
        });
    }

    /// Puts the elements of another walk, as many as this one has, at the places of this one.
    pub(crate) fn write<T: Copy, O: Slot<T>>(&self, data: &mut [O], from: &Walk, source: &[T]) {
        let len = self.axes.iter().map(|(extent, _)| extent).product();
        let mut done = 0;
        self.runs(0, len, |at, len, stride| {
            if stride == 1 {
                from.read(source, done, &mut data[at as usize..at as usize + len]);
            } else {
                let mut to = at;
                from.runs(done, len, |at, len, step| {
                    for i in 0..len as isize {
                        data[to as usize].put(source[(at + i * step) as usize]);
                        to += stride;
                    }
                });
            }
            done += len;
        });
    }
}

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(map: &IndexMap, inputs: &[LocalMeta]) -> Support {
    let Some(first) = inputs.first() else {
        return Support::No("the cpu backend does not copy nothing".to_owned());
    };
    if inputs.iter().any(|input| input.dtype != first.dtype) {
        return Support::No("the cpu backend does not copy from operands of several dtypes".to_owned());
    }
    match map.fill.to_bytes(first.dtype) {
        Some(_) => Support::Yes,
        None if covers(map) => Support::Yes,
        None => Support::No(format!("{} is no value of {}", map.fill, first.dtype)),
    }
}

/// Whether the pieces leave no gap, as far as is cheap to see: one piece, or a row of them along one axis.
fn covers(map: &IndexMap) -> bool {
    let whole = |piece: &Piece, axis: usize| {
        map.shape.iter().zip(&piece.into).enumerate().all(|(i, (n, range))| i == axis || *range == (0..*n))
    };
    if map.shape.elements() == 0 {
        return true;
    }
    if map.shape.is_empty() {
        return !map.pieces.is_empty();
    }
    (0..map.shape.len()).any(|axis| {
        let mut end = 0;
        map.pieces.iter().all(|piece| {
            let range = piece.into.get(axis).cloned().unwrap_or(0..0);
            let next = range.start == end && whole(piece, axis);
            end = end.max(range.end);
            next
        }) && end == map.shape.extent(axis)
    })
}

/// A piece whose places in memory are known: box, offset and strides.
struct Source<'a, T: Item> {
    piece: &'a Piece,
    data: Cow<'a, [T]>,
    offset: isize,
    strides: SmallVec<[isize; 4]>,
}

impl<'a, T: Item> Source<'a, T> {
    fn new(piece: &'a Piece, inputs: &[&'a LocalArray]) -> Result<Self> {
        let input = *inputs.get(piece.operand).ok_or_else(|| internal("a piece of no operand"))?;
        let view = View::<T>::of(input)?;
        // The numbers that the box reads must exist.
        let (mut low, mut high) = (piece.offset, piece.offset);
        for (range, stride) in piece.into.iter().zip(&piece.strides) {
            let reach = stride.saturating_mul(range.len().saturating_sub(1) as isize);
            if reach < 0 {
                low = low.saturating_add(reach);
            } else {
                high = high.saturating_add(reach);
            }
        }
        if low < 0 || high >= input.elements() as isize {
            return Err(internal(format!("a piece reads outside an operand of shape {}", input.shape())));
        }
        let meta = view.meta();
        if view.dense().is_none()
            && let Some((offset, strides)) = through(piece, meta)
        {
            return Ok(Self { piece, data: view.data().into(), offset, strides });
        }
        Ok(Self { piece, data: view.to_dense(), offset: piece.offset, strides: piece.strides.clone() })
    }

    /// Writes the part of the piece that lies in rows `first..` of the result's axis `axis`, of which `out` holds
    /// whole ones; the axes before it have extent 1.
    fn write(&self, shape: &Shape, axis: usize, first: usize, rows: usize, out: &mut [MaybeUninit<T>]) {
        let (mut extents, mut to) = (SmallVec::<[usize; 4]>::new(), 0);
        let mut offset = self.offset;
        let steps = shape.strides();
        for (i, range) in self.piece.into.iter().enumerate() {
            let (mut start, mut end, mut base) = (range.start, range.end, 0);
            if i == axis {
                (start, end, base) = (start.max(first), end.min(first + rows), first);
            }
            if start >= end {
                return;
            }
            offset += self.strides[i] * (start - range.start) as isize;
            to += steps[i] * (start - base) as isize;
            extents.push(end - start);
        }
        let from = Walk::new(&extents, &self.strides, offset);
        let into = Walk::new(&extents, &steps, to);
        into.write(out, &from, &self.data);
    }
}

/// The memory offset and strides of a piece of a strided operand, if it reads along axes without crossing their ends.
fn through(piece: &Piece, meta: &LocalMeta) -> Option<(isize, SmallVec<[isize; 4]>)> {
    let rows = meta.shape.strides();
    // The parts of a number on each axis of the operand.
    let parts = |mut number: isize| -> SmallVec<[isize; 8]> {
        rows.iter()
            .zip(meta.shape.iter())
            .map(|(row, extent)| {
                let part = if *extent == 1 { 0 } else { number / row };
                number -= part * row;
                part
            })
            .collect()
    };
    let place = |parts: &[isize]| -> isize { parts.iter().zip(&meta.strides).map(|(i, s)| i * s).sum() };
    let start = parts(piece.offset);
    let (mut low, mut high) = (start.clone(), start.clone());
    let mut strides = SmallVec::new();
    for (range, stride) in piece.into.iter().zip(&piece.strides) {
        let steps = parts(*stride);
        let count = range.len().saturating_sub(1) as isize;
        for ((low, high), step) in low.iter_mut().zip(high.iter_mut()).zip(&steps) {
            let reach = step.checked_mul(count)?;
            if reach < 0 {
                *low += reach;
            } else {
                *high += reach;
            }
        }
        strides.push(place(&steps));
    }
    let inside = low.iter().zip(&high).zip(meta.shape.iter());
    let inside = inside.into_iter().all(|((low, high), extent)| *low >= 0 && *high < *extent as isize);
    inside.then(|| (meta.offset as isize + place(&start), strides))
}

/// Runs the primitive.
pub(crate) fn run(map: &IndexMap, inputs: &[&LocalArray], out: &mut LocalArray) -> Result<()> {
    if map.shape != *out.shape() {
        return Err(internal(format!("a copy of shape {} into {out:?}", map.shape)));
    }
    with_dtype!(out.dtype(), T => {
        let covered = covers(map);
        let fill = match T::from_scalar(map.fill) {
            Some(value) => value,
            None if covered => T::ZERO,
            None => return Err(unsupported(format_args!("{} as a value of {}", map.fill, out.dtype()))),
        };
        let sources = map
            .pieces
            .iter()
            .filter(|piece| piece.into.iter().all(|range| !range.is_empty()))
            .map(|piece| check(piece, &map.shape).and_then(|()| Source::<T>::new(piece, inputs)))
            .collect::<Result<SmallVec<[_; 4]>>>()?;
        // The outermost axis that can be cut, and the elements of one row of it.
        let axis = map.shape.iter().position(|extent| *extent > 1).unwrap_or(0);
        let row: usize = map.shape.iter().skip(axis + 1).product();
        let rows = (TASK / row.max(1)).max(1);
        let part = |i: usize, out: &mut [MaybeUninit<T>]| {
            if !covered {
                out.fill(MaybeUninit::new(fill));
            }
            let count = out.len() / row.max(1);
            sources.iter().for_each(|source| source.write(&map.shape, axis, i * rows, count, out));
        };
        let write = |out: &mut [MaybeUninit<T>]| {
            if is_large(out.len()) {
                out.par_chunks_mut(rows * row).enumerate().for_each(|(i, out)| part(i, out));
            } else if !out.is_empty() {
                part(0, out);
            }
            Ok(())
        };
        // SAFETY: the chunks are the whole slice; each is filled first, unless `covers` has seen that the pieces, whose
        // boxes lie inside the shape by `check`, leave no element out.
        unsafe { overwrite::<T>(out, write) }
    })
}

/// Whether a piece fits the result.
fn check(piece: &Piece, shape: &Shape) -> Result<()> {
    let axes = piece.into.len() == shape.len() && piece.strides.len() == shape.len();
    if axes && piece.into.iter().zip(shape.iter()).all(|(range, extent)| range.end <= *extent) {
        return Ok(());
    }
    Err(internal(format!("a piece {piece:?} does not fit a result of shape {shape}")))
}

/// Copies regions; see [`Backend::copy`](sharding_core::backend::Backend::copy).
pub(crate) fn regions(moves: &mut [Move<'_>]) -> Result<()> {
    for Move { op, pieces, into } in moves {
        for (source, at) in pieces.iter() {
            region(source, at, into).map_err(|error| error.with_op(*op))?;
        }
    }
    Ok(())
}

fn region(source: &LocalArray, at: &[usize], into: &mut LocalArray) -> Result<()> {
    if source.elements() == 0 {
        return Ok(());
    }
    let meta = into.meta().clone();
    let target = source.shape();
    let fits = target.len() == meta.shape.len()
        && at.len() == meta.shape.len()
        && target
            .iter()
            .zip(at)
            .zip(meta.shape.iter())
            .all(|((n, at), extent)| extent.checked_sub(*n).is_some_and(|most| *at <= most));
    if !fits || source.dtype() != meta.dtype {
        return Err(internal(format!("{source:?} does not fit {into:?} at {at:?}")));
    }
    with_dtype!(meta.dtype, T => {
        // A source in the same storage holds it too, so that `owned` copies it and nothing overlaps.
        let view = View::<T>::of(source)?;
        let from = Walk::new(&view.meta().shape, &view.meta().strides, view.meta().offset as isize);
        let offset = at.iter().zip(&meta.strides).map(|(i, stride)| *i as isize * stride).sum::<isize>();
        let to = Walk::new(target, &meta.strides, meta.offset as isize + offset);
        let data = owned(into)?.elements_mut::<T>()?;
        in_bounds(&meta, data.len())?;
        to.write(data, &from, view.data());
        Ok(())
    })
}
