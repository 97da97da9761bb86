//! Copies: strided reads and writes, and index maps.

use crate::device::{self, is_large};
use crate::element::{Cell, Slot};
use crate::memory::Beside;
use crate::storage::{View, internal, overwrite, unsupported, with_word};
use sharding_core::backend::{IndexMap, LocalArray, LocalMeta, Piece, Support};
use sharding_core::{Result, Shape};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Elements per task of the pool.
pub(crate) const TASK: usize = 1 << 16;

/// A walk over the elements of a strided view in row-major order: axes that lie behind each other in memory are
/// one, those of extent 1 none.
#[derive(PartialEq)]
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

    /// Whether its elements lie side by side, if not all then at least so many.
    pub(crate) fn is_in_stretches(&self, shortest: usize) -> bool {
        match self.axes[..] {
            [] | [(_, 1)] => true,
            [.., (len, 1)] => len >= shortest,
            _ => false,
        }
    }

    /// The elements that lie side by side, where these are not all.
    pub(crate) fn stretch(&self) -> Option<usize> {
        match self.axes[..] {
            [.., _, (len, 1)] => Some(len),
            _ => None,
        }
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
    pub(crate) fn runs(&self, start: usize, len: usize, mut run: impl FnMut(isize, usize, isize)) {
        if len == 0 {
            // An axis may have no extent to divide by.
            return;
        }
        let Some(((inner, stride), outer)) = self.axes.split_last() else {
            // One element.
            return run(self.offset, len, 0);
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
}

/// Lines of a tile of a transposition: one cache line of f32.
const TILE: usize = 16;

/// A copy of a box from one strided memory to another.
pub(crate) struct Transfer {
    /// (extent, stride to, stride from), the axis that is densest in the target last.
    axes: SmallVec<[(usize, isize, isize); 4]>,
    to: isize,
    from: isize,
}

impl Transfer {
    /// A copy of a box of at least one element; strides and offsets of its first element in the target and the source.
    pub(crate) fn new(extents: &[usize], to: (&[isize], isize), from: (&[isize], isize)) -> Self {
        let mut axes: SmallVec<[(usize, isize, isize); 4]> = SmallVec::new();
        for ((extent, into), out_of) in extents.iter().zip(to.0).zip(from.0) {
            let size = *extent as isize;
            match axes.last_mut() {
                _ if *extent == 1 => {}
                Some((outer, a, b)) if (*a, *b) == (into * size, out_of * size) => {
                    (*outer, *a, *b) = (*outer * extent, *into, *out_of);
                }
                _ => axes.push((*extent, *into, *out_of)),
            }
        }
        axes.sort_by_key(|(_, into, _)| std::cmp::Reverse(into.unsigned_abs()));
        Self { axes, to: to.1, from: from.1 }
    }

    /// The box as lines of elements that lie side by side in both memories, if it is no more than that.
    pub(crate) fn lines(&self) -> Option<Lines> {
        let (count, into, out_of, len) = match self.axes[..] {
            [(len, 1, 1)] => (1, 0, 0, len),
            [(count, into, out_of), (len, 1, 1)] => (count, into, out_of, len),
            _ => return None,
        };
        Some(Lines { count, len, to: self.to, from: self.from, steps: (into, out_of) })
    }

    /// Copies the box; rows past the caches where it is asked for.
    pub(crate) fn run<T: Copy, O: Slot<T>>(&self, source: &[T], target: &mut [O], beside: Option<&Beside>) {
        let Some((row, outer)) = self.axes.split_last() else {
            return target[self.to as usize].put(source[self.from as usize]);
        };
        let (n, into, out_of) = *row;
        // Another axis that is dense in the source makes pairs of lines, not elements, the unit.
        let across = outer.iter().rposition(|(n, into, from)| *from == 1 && *into > 0 && *n > TILE / 2);
        if let Some(axis) = across.filter(|_| into == 1 && out_of > 1 && n > TILE / 2) {
            let mut rest: SmallVec<[_; 4]> = SmallVec::from_slice(outer);
            let other = rest.remove(axis);
            let (lines, step) = (other.0, other.1);
            each_index(&rest, self.to, self.from, |to, from| {
                transpose((lines, step), (n, out_of), &source[from as usize..], &mut target[to as usize..]);
            });
            return;
        }
        if let (1, 1, Some(beside)) = (into, out_of, beside) {
            return each_index(outer, self.to, self.from, |to, from| {
                O::put_beside(&mut target[to as usize..][..n], &source[from as usize..][..n], beside);
            });
        }
        each_index(outer, self.to, self.from, |to, from| match (into, out_of) {
            (1, 1) => {
                let (to, from) = (to as usize, from as usize);
                for (slot, x) in target[to..to + n].iter_mut().zip(&source[from..from + n]) {
                    slot.put(*x);
                }
            }
            (1, 0) => {
                let x = source[from as usize];
                target[to as usize..to as usize + n].iter_mut().for_each(|slot| slot.put(x));
            }
            _ => {
                for i in 0..n as isize {
                    target[(to + i * into) as usize].put(source[(from + i * out_of) as usize]);
                }
            }
        });
    }
}

/// Lines of so many elements.
pub(crate) struct Lines {
    pub(crate) count: usize,
    pub(crate) len: usize,
    /// The places of the first one in the target and the source, and the steps to the next.
    to: isize,
    from: isize,
    steps: (isize, isize),
}

impl Lines {
    /// The places of a line, if there is one of that number.
    pub(crate) fn at(&self, line: usize) -> Option<(usize, usize)> {
        let i = line as isize;
        let place = |first: isize, step: isize| (first + i * step) as usize;
        (line < self.count).then(|| (place(self.to, self.steps.0), place(self.from, self.steps.1)))
    }
}

/// Copies elements that lie side by side, past the caches where it is asked for.
#[inline]
pub(crate) fn put_line<T: Copy, O: Slot<T>>(places: &mut [O], values: &[T], beside: Option<&Beside>) {
    match beside {
        Some(beside) => O::put_beside(places, values, beside),
        None => places.iter_mut().zip(values).for_each(|(slot, x)| slot.put(*x)),
    }
}

/// Calls `f` with the places of every index of the axes in target and source.
fn each_index(
    axes: &[(usize, isize, isize)],
    mut to: isize,
    mut from: isize,
    mut f: impl FnMut(isize, isize),
) {
    let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, axes.len());
    loop {
        f(to, from);
        let mut axis = axes.len();
        loop {
            let Some(next) = axis.checked_sub(1) else { return };
            axis = next;
            let (n, into, out_of) = axes[axis];
            index[axis] += 1;
            (to, from) = (to + into, from + out_of);
            if index[axis] < n {
                break;
            }
            (to, from) = (to - n as isize * into, from - n as isize * out_of);
            index[axis] = 0;
        }
    }
}

/// `target[j * step + i] = source[i * stride + j]` for `lines` j and `n` i, in tiles that are read and written by lines.
fn transpose<T: Copy, O: Slot<T>>(
    (lines, step): (usize, isize),
    (n, stride): (usize, isize),
    source: &[T],
    target: &mut [O],
) {
    let mut tile = [[source[0]; TILE]; TILE];
    for first in (0..lines).step_by(TILE) {
        let height = TILE.min(lines - first);
        for left in (0..n).step_by(TILE) {
            let width = TILE.min(n - left);
            for (i, row) in tile.iter_mut().enumerate().take(width) {
                let at = ((left + i) as isize * stride) as usize + first;
                row[..height].copy_from_slice(&source[at..at + height]);
            }
            for j in 0..height {
                let at = ((first + j) as isize * step) as usize + left;
                for (slot, row) in target[at..at + width].iter_mut().zip(&tile) {
                    slot.put(row[j]);
                }
            }
        }
    }
}

/// Whether a view of some size is dense along another axis than its last.
pub(crate) fn transposes(meta: &LocalMeta) -> bool {
    let dense = |(n, stride): (&usize, &isize)| *stride == 1 && *n > TILE / 2;
    let mut axes = meta.shape.iter().zip(&meta.strides).rev().filter(|(n, _)| **n != 1);
    let across = axes.next().is_some_and(|(n, stride)| *n > TILE / 2 && !matches!(stride, 0 | 1));
    across && axes.any(dense)
}

/// Writes a strided view in row-major order; every element of `out`, which must be as long.
pub(crate) fn spread<T: Cell, O: Slot<T>>(
    shape: &[usize],
    strides: &[isize],
    offset: isize,
    data: &[T],
    out: &mut [O],
) {
    if out.is_empty() {
        return;
    }
    let rows = row_major(shape);
    // The outermost axis that can be cut, and the elements of one row of it.
    let axis = shape.iter().position(|extent| *extent > 1).unwrap_or(0);
    let row: usize = shape.iter().skip(axis + 1).product();
    let count = (TASK / row.max(1)).max(1);
    let bytes = size_of_val(out);
    let part = |i: usize, out: &mut [O]| {
        let mut extents: SmallVec<[usize; 4]> = SmallVec::from_slice(shape);
        let mut from = offset;
        if let Some(extent) = extents.get_mut(axis) {
            *extent = out.len() / row;
            from += strides[axis] * (i * count) as isize;
        }
        let beside = Beside::new(bytes);
        Transfer::new(&extents, (&rows, 0), (strides, from)).run(data, out, beside.as_ref());
    };
    if is_large(out.len()) {
        device::chunks(out, count * row, part);
    } else {
        part(0, out);
    }
}

/// Row-major strides.
fn row_major(shape: &[usize]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(1, shape.len());
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
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
struct Source<'a, T: Cell> {
    piece: &'a Piece,
    data: Cow<'a, [T]>,
    offset: isize,
    strides: SmallVec<[isize; 4]>,
}

impl<'a, T: Cell> Source<'a, T> {
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
    fn write(
        &self,
        shape: &Shape,
        axis: usize,
        first: usize,
        rows: usize,
        out: &mut [MaybeUninit<T>],
        beside: Option<&Beside>,
    ) {
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
        Transfer::new(&extents, (&steps, to), (&self.strides, offset)).run(&self.data, out, beside);
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
    if let Some(other) = inputs.iter().find(|input| input.dtype() != out.dtype()) {
        return Err(internal(format!("a copy of {other:?} into {out:?}")));
    }
    // All of them, those that write nothing too: what `covers` says is said of boxes that fit.
    map.pieces.iter().try_for_each(|piece| check(piece, &map.shape))?;
    with_word!(out.dtype(), T => {
        let covered = covers(map);
        let fill: T = match map.fill.to_bytes(out.dtype()) {
            Some(bytes) => bytemuck::pod_read_unaligned(&bytes),
            None if covered => 0,
            None => return Err(unsupported(format_args!("{} as a value of {}", map.fill, out.dtype()))),
        };
        let written = map.pieces.iter().filter(|piece| piece.into.iter().all(|range| !range.is_empty()));
        let sources = written.map(|piece| Source::<T>::new(piece, inputs)).collect::<Result<SmallVec<[_; 4]>>>()?;
        // The outermost axis that can be cut, and the elements of one row of it.
        let axis = map.shape.iter().position(|extent| *extent > 1).unwrap_or(0);
        let row: usize = map.shape.iter().skip(axis + 1).product();
        let rows = (TASK / row.max(1)).max(1);
        let bytes = map.shape.elements() * size_of::<T>();
        let part = |i: usize, out: &mut [MaybeUninit<T>]| {
            if !covered {
                out.fill(MaybeUninit::new(fill));
            }
            let count = out.len() / row.max(1);
            let beside = Beside::new(bytes).filter(|_| covered);
            for source in &sources {
                source.write(&map.shape, axis, i * rows, count, out, beside.as_ref());
            }
        };
        let write = |out: &mut [MaybeUninit<T>]| {
            if is_large(out.len()) {
                device::chunks(out, rows * row, part);
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
