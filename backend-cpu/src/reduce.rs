//! Reductions in a fixed order: blocks of lanes, then a binary tree, whatever the strides and threads.

use crate::device::{is_large, vectorize};
use crate::element::{Fold, Item, Slot, with_dtype, with_fold};
use crate::storage::{View, internal, overwrite};
use rayon::prelude::*;
use sharding_core::Result;
use sharding_core::backend::{LocalArray, LocalMeta, Reduce, Support};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Partial results kept side by side in a block, so that the loop over it vectorises.
const LANES: usize = 32;
/// Elements of a block: 32 additions in a row on every lane.
const BLOCK: usize = 32 * LANES;
/// Columns that are combined at once where rows are added up: they stay in the first cache.
const COLUMNS: usize = 512;
/// Rows that are added one after the other.
const ROWS: usize = 32;

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(reduce: &Reduce, inputs: &[LocalMeta]) -> Support {
    match inputs {
        [input] if reduce.axes.iter().all(|axis| *axis < input.shape.len()) => Support::Yes,
        _ => Support::No(format!("{reduce:?} of {inputs:?}")),
    }
}

/// Combines the elements of a row.
pub(crate) fn row<F: Fold, T: Item>(x: &[T]) -> T {
    if x.len() <= BLOCK {
        return vectorize(
            #[inline(always)]
            || block::<F, T>(x),
        );
    }
    let (left, right) = x.split_at(half(x.len().div_ceil(BLOCK)) * BLOCK);
    let (left, right) = if is_large(x.len()) {
        rayon::join(|| row::<F, T>(left), || row::<F, T>(right))
    } else {
        (row::<F, T>(left), row::<F, T>(right))
    };
    F::fold(left, right)
}

/// The size of the left branch of a tree over `n` leaves.
pub(crate) const fn half(n: usize) -> usize {
    n.div_ceil(2)
}

#[inline(always)]
fn block<F: Fold, T: Item>(x: &[T]) -> T {
    let mut lanes = [F::identity::<T>(); LANES];
    let (whole, rest) = x.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = F::fold(*lane, *x);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = F::fold(*lane, *x);
    }
    let mut width = LANES / 2;
    while width > 0 {
        let (left, right) = lanes.split_at_mut(width);
        for (left, right) in left.iter_mut().zip(right) {
            *left = F::fold(*left, *right);
        }
        width /= 2;
    }
    lanes[0]
}

/// Combines columns `from..from + out.len()` of the rows of `x`, each of `width` elements.
pub(crate) fn columns<F: Fold, T: Item>(x: &[T], width: usize, from: usize, out: &mut [T]) {
    let rows = x.len() / width.max(1);
    if rows <= ROWS {
        vectorize(
            #[inline(always)]
            || {
                out.fill(F::identity::<T>());
                for row in x.chunks_exact(width.max(1)) {
                    for (sum, x) in out.iter_mut().zip(&row[from..]) {
                        *sum = F::fold(*sum, *x);
                    }
                }
            },
        );
        return;
    }
    let (left, right) = x.split_at(half(rows.div_ceil(ROWS)) * ROWS * width);
    let mut other = [T::ZERO; COLUMNS];
    let other = &mut other[..out.len()];
    if is_large(rows * out.len()) {
        rayon::join(
            || columns::<F, T>(left, width, from, out),
            || columns::<F, T>(right, width, from, other),
        );
    } else {
        columns::<F, T>(left, width, from, out);
        columns::<F, T>(right, width, from, other);
    }
    for (left, right) in out.iter_mut().zip(other) {
        *left = F::fold(*left, *right);
    }
}

/// Combines the middle axis of `x`, of shape `[outer, n, inner]`.
fn middle<F: Fold, T: Item, O: Slot<T>>(x: &[T], n: usize, inner: usize, out: &mut [O]) {
    let identity = F::identity::<T>();
    if n == 0 {
        out.iter_mut().for_each(|slot| slot.put(identity));
        return;
    }
    let large = is_large(x.len());
    if inner == 1 {
        let rows = |(out, x): (&mut [O], &[T])| {
            for (slot, x) in out.iter_mut().zip(x.chunks_exact(n)) {
                slot.put(row::<F, T>(x));
            }
        };
        if large {
            // Rows of a task together: as many as make it worth while.
            let count = ((1 << 15) / n).max(1);
            out.par_chunks_mut(count).zip(x.par_chunks(count * n)).for_each(rows);
        } else {
            rows((out, x));
        }
        return;
    }
    let plane = |(out, x): (&mut [O], &[T])| {
        let block = |(i, out): (usize, &mut [O])| {
            let mut sums = [identity; COLUMNS];
            let sums = &mut sums[..out.len()];
            columns::<F, T>(x, inner, i * COLUMNS, sums);
            for (slot, sum) in out.iter_mut().zip(sums) {
                slot.put(*sum);
            }
        };
        if is_large(x.len()) {
            out.par_chunks_mut(COLUMNS).enumerate().for_each(block);
        } else {
            out.chunks_mut(COLUMNS).enumerate().for_each(block);
        }
    };
    if large {
        out.par_chunks_mut(inner).zip(x.par_chunks(n * inner)).for_each(plane);
    } else {
        out.chunks_mut(inner).zip(x.chunks(n * inner)).for_each(plane);
    }
}

/// Groups of neighbouring axes of which all or none are reduced, without those of extent 1: (extent, reduced).
fn groups(shape: &[usize], axes: &[usize]) -> SmallVec<[(usize, bool); 8]> {
    let mut groups: SmallVec<[(usize, bool); 8]> = SmallVec::new();
    for (axis, extent) in shape.iter().enumerate() {
        let reduced = axes.contains(&axis);
        match groups.last_mut() {
            _ if *extent == 1 => {}
            Some((size, same)) if *same == reduced => *size *= extent,
            _ => groups.push((*extent, reduced)),
        }
    }
    groups
}

/// Runs the primitive.
pub(crate) fn run(reduce: &Reduce, input: &LocalArray, out: &mut LocalArray) -> Result<()> {
    with_dtype!(input.dtype(), T => {
        with_fold!(reduce.op, F => reduce_to::<F, T>(reduce, input, out))
    })
}

fn reduce_to<F: Fold, T: Item>(reduce: &Reduce, input: &LocalArray, out: &mut LocalArray) -> Result<()> {
    let view = View::<T>::of(input)?;
    let mut groups = groups(input.shape(), &reduce.axes);
    let kept = |(axis, extent): (usize, &usize)| if reduce.axes.contains(&axis) { 1 } else { *extent };
    if input.shape().iter().enumerate().map(kept).product::<usize>() != out.elements() {
        return Err(internal(format!("{reduce:?} of {input:?} into {out:?}")));
    }
    let write = |out: &mut [MaybeUninit<T>]| {
        if input.elements() == 0 {
            out.fill(MaybeUninit::new(F::identity::<T>()));
            return Ok(());
        }
        let mut x = view.to_dense();
        // Groups from the last to the first; all but one of them go to memory in between.
        loop {
            let Some(last) = groups.iter().rposition(|(_, reduced)| *reduced) else {
                for (slot, x) in out.iter_mut().zip(x.iter()) {
                    slot.write(*x);
                }
                return Ok(());
            };
            let inner: usize = groups[last + 1..].iter().map(|(n, _)| n).product();
            let (n, _) = groups.remove(last);
            if groups.iter().all(|(_, reduced)| !reduced) {
                middle::<F, T, _>(&x, n, inner, out);
                return Ok(());
            }
            let mut next = vec![T::ZERO; x.len() / n];
            middle::<F, T, T>(&x, n, inner, &mut next);
            x = Cow::Owned(next);
        }
    };
    // SAFETY: without elements all of `out` is filled; else its length is the product of the kept groups (checked above),
    // and `middle` writes one element for each index outside the reduced axis.
    unsafe { overwrite::<T>(out, write) }
}
