//! Reductions in a fixed order: blocks of lanes, then a binary tree, whatever the strides and threads.

use crate::device::{self, is_large, vectorize};
use crate::element::{Item, Narrow, Slot, is_narrow, with_lane, with_narrow};
use crate::storage::{View, internal, overwrite, with_word};
use bytemuck::cast_slice;
use sharding_core::backend::{LocalArray, LocalMeta, Reduce, Support};
use sharding_core::{DType, Result};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Partial results kept side by side in a block, so that the loop over it vectorises.
const LANES: usize = 32;
/// Elements of a block: 32 additions in a row on every lane.
const BLOCK: usize = 32 * LANES;
/// Columns that are combined at once where rows are added up: they stay in the first cache.
const COLUMNS: usize = 512;
/// Rows that are added one after the other.
const ROWS: usize = 32;

/// How two elements combine; see [`ReduceOp`](sharding_core::ReduceOp).
pub(crate) trait Fold: Copy + Send + Sync {
    /// Combines two elements.
    fn fold<T: Item>(a: T, b: T) -> T;
    /// The value that changes nothing.
    fn identity<T: Item>() -> T;
}

macro_rules! folds {
    ($($name:ident: $function:ident $identity:ident),*) => {$(
        /// See [`Fold`].
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
        impl Fold for $name {
            #[inline(always)]
            fn fold<T: Item>(a: T, b: T) -> T {
                T::$function(a, b)
            }
            #[inline(always)]
            fn identity<T: Item>() -> T {
                T::$identity
            }
        }
    )*};
}
folds!(Sum: plus ZERO, Prod: times ONE, Max: greater LOWEST, Min: lesser HIGHEST);

/// Runs a body with `$F` as the [`Fold`] of a [`ReduceOp`].
macro_rules! with_fold {
    ($op:expr, $F:ident => $body:expr) => {
        match $op {
            sharding_core::ReduceOp::Sum => {
                type $F = $crate::reduce::Sum;
                $body
            }
            sharding_core::ReduceOp::Prod => {
                type $F = $crate::reduce::Prod;
                $body
            }
            sharding_core::ReduceOp::Max => {
                type $F = $crate::reduce::Max;
                $body
            }
            sharding_core::ReduceOp::Min => {
                type $F = $crate::reduce::Min;
                $body
            }
        }
    };
}
/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(reduce: &Reduce, inputs: &[LocalMeta]) -> Support {
    match inputs {
        [input] if reduce.axes.iter().all(|axis| *axis < input.shape.len()) => Support::Yes,
        _ => Support::No(format!("{reduce:?} of {inputs:?}")),
    }
}

/// What is combined, in row-major order.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a, T> {
    /// Elements as they are computed in.
    Lanes(&'a [T]),
    /// The memory of elements of a narrow dtype, converted block by block.
    Narrow(DType, &'a [u8]),
}

impl<'a, T: Item> Input<'a, T> {
    fn len(&self) -> usize {
        match self {
            Input::Lanes(x) => x.len(),
            Input::Narrow(dtype, bytes) => bytes.len() / dtype.size(),
        }
    }
    fn split_at(self, at: usize) -> (Self, Self) {
        (self.part(0, at), self.part(at, self.len() - at))
    }
    /// Elements `start..start + len`.
    fn part(self, start: usize, len: usize) -> Self {
        match self {
            Input::Lanes(x) => Input::Lanes(&x[start..start + len]),
            Input::Narrow(dtype, bytes) => {
                let size = dtype.size();
                Input::Narrow(dtype, &bytes[start * size..(start + len) * size])
            }
        }
    }
    /// All elements, as many as `room` takes at most.
    #[inline(always)]
    fn read<'r>(self, room: &'r mut Option<[T; BLOCK]>) -> &'r [T]
    where
        'a: 'r,
    {
        match self {
            Input::Lanes(x) => x,
            Input::Narrow(dtype, bytes) => {
                let room = &mut room.get_or_insert([T::ZERO; BLOCK])[..bytes.len() / dtype.size()];
                T::load(dtype, bytes, room);
                room
            }
        }
    }
}

/// Combines the elements of a row.
pub(crate) fn row<F: Fold, T: Item>(x: &[T]) -> T {
    tree::<F, T>(Input::Lanes(x))
}

fn tree<F: Fold, T: Item>(x: Input<'_, T>) -> T {
    let n = x.len();
    if n <= BLOCK {
        let mut room = None;
        let x = x.read(&mut room);
        return vectorize(
            #[inline(always)]
            || block::<F, T>(x),
        );
    }
    let (left, right) = x.split_at(half(n.div_ceil(BLOCK)) * BLOCK);
    let (left, right) = if is_large(n) {
        device::join(|| tree::<F, T>(left), || tree::<F, T>(right))
    } else {
        (tree::<F, T>(left), tree::<F, T>(right))
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
    // The loop above keeps its lanes in order, if the compiler does not see how they are combined below: it would take
    // them in halves and quarters all along.
    let mut lanes = std::hint::black_box(lanes);
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
fn columns<F: Fold, T: Item>(x: Input<'_, T>, width: usize, from: usize, out: &mut [T]) {
    let rows = x.len() / width.max(1);
    if rows <= ROWS {
        out.fill(F::identity::<T>());
        match x {
            Input::Lanes(x) => vectorize(
                #[inline(always)]
                || {
                    for row in x.chunks_exact(width.max(1)) {
                        for (sum, x) in out.iter_mut().zip(&row[from..]) {
                            *sum = F::fold(*sum, *x);
                        }
                    }
                },
            ),
            narrow => {
                let mut room = None;
                for row in 0..rows {
                    let x = narrow.part(row * width + from, out.len()).read(&mut room);
                    vectorize(
                        #[inline(always)]
                        || {
                            for (sum, x) in out.iter_mut().zip(x) {
                                *sum = F::fold(*sum, *x);
                            }
                        },
                    );
                }
            }
        }
        return;
    }
    let (left, right) = x.split_at(half(rows.div_ceil(ROWS)) * ROWS * width);
    let mut other = [T::ZERO; COLUMNS];
    let other = &mut other[..out.len()];
    if is_large(rows * out.len()) {
        device::join(
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
fn middle<F: Fold, T: Item, O: Slot<T>>(x: Input<'_, T>, n: usize, inner: usize, out: &mut [O]) {
    let identity = F::identity::<T>();
    if n == 0 {
        out.iter_mut().for_each(|slot| slot.put(identity));
        return;
    }
    let large = is_large(x.len());
    if inner == 1 {
        // Rows of a task together: as many as make it worth while.
        let count = if large { ((1 << 15) / n).max(1) } else { out.len().max(1) };
        let rows = |i: usize, out: &mut [O]| {
            for (row, slot) in out.iter_mut().enumerate() {
                slot.put(tree::<F, T>(x.part((i * count + row) * n, n)));
            }
        };
        if large {
            device::chunks(out, count, rows);
        } else {
            rows(0, out);
        }
        return;
    }
    let plane = |i: usize, out: &mut [O]| {
        let x = x.part(i * n * inner, n * inner);
        let block = |i: usize, out: &mut [O]| {
            let mut sums = [identity; COLUMNS];
            let sums = &mut sums[..out.len()];
            columns::<F, T>(x, inner, i * COLUMNS, sums);
            for (slot, sum) in out.iter_mut().zip(sums) {
                slot.put(*sum);
            }
        };
        if is_large(x.len()) {
            device::chunks(out, COLUMNS, block);
        } else {
            out.chunks_mut(COLUMNS).enumerate().for_each(|(i, out)| block(i, out));
        }
    };
    if large {
        device::chunks(out, inner, plane);
    } else {
        out.chunks_mut(inner).enumerate().for_each(|(i, out)| plane(i, out));
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
    let dtype = input.dtype();
    let kept = |(axis, extent): (usize, &usize)| if reduce.axes.contains(&axis) { 1 } else { *extent };
    if input.shape().iter().enumerate().map(kept).product::<usize>() != out.elements() || dtype != out.dtype()
    {
        return Err(internal(format!("{reduce:?} of {input:?} into {out:?}")));
    }
    if input.elements() == 0 {
        // Nothing is wrapped or rounded: the identity is one of the dtype.
        let identity = reduce.op.identity(dtype).to_bytes(dtype);
        let identity = identity.ok_or_else(|| internal(format!("{reduce:?} has no identity of {dtype}")))?;
        return with_word!(dtype, W => {
            let write = |out: &mut [MaybeUninit<W>]| {
                out.fill(MaybeUninit::new(bytemuck::pod_read_unaligned(&identity)));
                Ok(())
            };
            // SAFETY: all of `out` is filled.
            unsafe { overwrite::<W>(out, write) }
        });
    }
    let groups = groups(input.shape(), &reduce.axes);
    if !is_narrow(dtype) {
        return with_lane!(dtype, T => {
            let x = View::<T>::of(input)?.to_dense();
            let write = |out: &mut [MaybeUninit<T>]| {
                with_fold!(reduce.op, F => by_groups::<F, T, _>(Input::Lanes(&x), groups, out));
                Ok(())
            };
            // SAFETY: the length of `out` is the product of the kept groups (checked above), so that `by_groups` writes all of it.
            unsafe { overwrite::<T>(out, write) }
        });
    }
    with_narrow!(dtype, S => {
        let x = View::<S>::of(input)?.to_dense();
        let x = Input::Narrow(dtype, cast_slice(&x));
        let mut results = vec![<S as Narrow>::Lane::ZERO; out.elements()];
        with_fold!(reduce.op, F => by_groups::<F, <S as Narrow>::Lane, _>(x, groups, &mut results));
        let write = |out: &mut [MaybeUninit<S>]| {
            for (slot, result) in out.iter_mut().zip(&results) {
                slot.write(S::store(*result));
            }
            Ok(())
        };
        // SAFETY: there are as many results as elements of `out`.
        unsafe { overwrite::<S>(out, write) }
    })
}

/// Combines the reduced groups, from the last to the first; all but one of them go to memory in between. Writes one
/// element for each index of the kept groups.
fn by_groups<F: Fold, T: Item, O: Slot<T>>(
    x: Input<'_, T>,
    mut groups: SmallVec<[(usize, bool); 8]>,
    out: &mut [O],
) {
    let Some(last) = groups.iter().rposition(|(_, reduced)| *reduced) else {
        let mut room = None;
        for (i, out) in out.chunks_mut(BLOCK).enumerate() {
            let x = x.part(i * BLOCK, out.len()).read(&mut room);
            out.iter_mut().zip(x).for_each(|(slot, x)| slot.put(*x));
        }
        return;
    };
    let inner: usize = groups[last + 1..].iter().map(|(n, _)| n).product();
    let (n, _) = groups.remove(last);
    if groups.iter().all(|(_, reduced)| !reduced) {
        return middle::<F, T, O>(x, n, inner, out);
    }
    let mut between = vec![T::ZERO; x.len() / n];
    middle::<F, T, T>(x, n, inner, &mut between);
    by_groups::<F, T, O>(Input::Lanes(&between), groups, out);
}
