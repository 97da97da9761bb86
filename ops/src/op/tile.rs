//! A tensor several times over.

use crate::{exchanged, row};
use sharding_core::backend::{IndexMap, LocalArray, Piece};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Result, Scalar, Shape, Shards, StageCx, TensorMeta, sharding_rule,
};
use smallvec::SmallVec;

/// So many copies of a split tensor are moved as such; of more it is brought together first.
const MOST_COPIES: usize = 1 << 10;

/// The shape with axes of extent 1 in front, one for each repeat that it has none for, and a repeat for each axis.
fn aligned(shape: &Shape, repeats: &[usize]) -> (Shape, SmallVec<[usize; 4]>) {
    let n = shape.len().max(repeats.len());
    let padded = |list: &[usize]| -> SmallVec<[usize; 4]> {
        std::iter::repeat_n(1, n - list.len()).chain(list.iter().copied()).collect()
    };
    (padded(shape).into_iter().collect(), padded(repeats))
}

fn tiled(shape: &Shape, repeats: &[usize]) -> Result<Shape> {
    let (shape, repeats) = aligned(shape, repeats);
    let extents: Option<Shape> = shape.iter().zip(&repeats).map(|(n, times)| n.checked_mul(*times)).collect();
    Shape::new(extents.ok_or_else(|| {
        Error::new(ErrorKind::Overflow, format!("{shape} times {repeats:?} has too many elements"))
            .with_fix("repeat it less often")
    })?)
}

/// Where the elements come from; `None` for more copies than are moved.
fn map(shape: &Shape, repeats: &[usize]) -> Result<Option<IndexMap>> {
    let result = tiled(shape, repeats)?;
    let (shape, repeats) = aligned(shape, repeats);
    // Axes of extent 1 repeat by staying where they are.
    let copies = |axis: usize| match shape.extent(axis) {
        1 => 1,
        _ => repeats.get(axis).copied().unwrap_or(1),
    };
    let count = (0..shape.len()).try_fold(1_usize, |count, axis| count.checked_mul(copies(axis)));
    let Some(count) = count.filter(|count| *count <= MOST_COPIES) else { return Ok(None) };
    let strides: SmallVec<[isize; 4]> = shape
        .strides()
        .iter()
        .zip(shape.iter())
        .map(|(stride, n)| if *n == 1 { 0 } else { *stride })
        .collect();
    let piece = |mut number: usize| {
        let range = |axis: usize| {
            let (extent, copy) = (shape.extent(axis), number % copies(axis));
            number /= copies(axis);
            if extent == 1 { 0..result.extent(axis) } else { copy * extent..(copy + 1) * extent }
        };
        let into = (0..shape.len()).map(range).collect();
        Piece { operand: 0, into, offset: 0, strides: strides.clone() }
    };
    Ok(Some(IndexMap {
        shape: result.clone(),
        pieces: (0..count).map(piece).collect(),
        fill: Scalar::Int(0),
    }))
}

/// Axes that are there once keep their split. Of a split axis that is there several times every device gets its share of the
/// longer one.
fn rule(cx: &RuleCx<'_>, repeats: &[usize]) -> Result<Rows> {
    let Some(x) = cx.operands.first() else { return Ok(Rows::new()) };
    let (shape, each) = aligned(&x.meta.shape, repeats);
    let new = shape.len() - x.meta.shape.len();
    let once = |axis: usize| each.get(axis + new) == Some(&1);
    let mut rows = row::movement_rows(cx, |axis| once(axis).then_some(axis + new));
    if let Some(axis) = cx.place(0).tensor_axis().filter(|axis| !once(*axis))
        && let Some(map) = map(&x.meta.shape, repeats)?
    {
        let to = exchanged::split_or_whole(cx, axis, 0, Some(axis + new));
        exchanged::add_row(cx, &mut rows, [cx.place(0)], &[(map, to)]);
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, repeats: &[usize]) -> Result<TensorMeta> {
    Ok(TensorMeta::new(x.dtype, tiled(&x.shape, repeats)?))
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, repeats: &[usize]) -> Result<Shards> {
    let map = map(cx.operand(0)?.shape(), repeats)?;
    let map = map.ok_or_else(|| Error::new(ErrorKind::Kernel, "too many copies to be moved"))?;
    cx.exchange(&map, 0, std::slice::from_ref(x))
}

fn cases(cases: &mut Cases) {
    for (shape, repeats) in [
        (&[7, 5][..], &[2, 1][..]),
        (&[7, 5], &[3]),
        (&[4, 3], &[2, 1, 3]),
        (&[4, 6], &[2, 2]),
        (&[1, 4], &[3, 1]),
        (&[2, 3], &[0, 2]),
        (&[0, 3], &[2, 1]),
        (&[], &[3]),
        (&[5], &[]),
    ] {
        for dtype in [DType::F32, DType::I64] {
            cases.add([CaseOperand::new(dtype, shape)], tile { repeats: repeats.into() });
        }
    }
}

/// `x` repeated as a whole, `repeats[i]` times along axis `i`, as `tile` of NumPy: aligned at the last axis, so that more
/// repeats than axes make new axes in front, and axes without a repeat are there once.
///
/// Axes that are there once keep their split. Of a split axis that is there several times every device gets its balanced
/// share: only what it does not hold moves. [`repeat`](fn@crate::repeat) repeats each element by itself.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(tile(&x, &[2])?.to_vec::<i64>()?, [1, 2, 3, 1, 2, 3]);
/// let y = tile(&x, &[2, 1])?;
/// assert_eq!((y.shape().to_vec(), y.layout().places()), (vec![2, 3], &[Sharded(1)][..]));
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for more axes than a tensor has, [`ErrorKind::Overflow`](crate::ErrorKind::Overflow)
/// for too many elements, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn tile(cx: &mut KernelCx, x: &LocalArray, repeats: &[usize]) -> Result<LocalArray> {
    let (shape, repeats) = aligned(x.shape(), repeats);
    let mut made = if shape == *x.shape() { x.clone() } else { cx.reshape(x, &shape)? };
    // From the last axis, so that the early copies are the small ones.
    for (axis, times) in repeats.iter().enumerate().rev().filter(|(_, times)| **times != 1) {
        made = repeated(cx, &made, axis, axis, *times)?;
    }
    Ok(made)
}

/// The array with an axis that is there several times: its elements in order if the copies stand in front of it, each one by
/// itself if they stand behind (`at` is `axis` or `axis + 1`).
pub(crate) fn repeated(
    cx: &mut KernelCx,
    x: &LocalArray,
    axis: usize,
    at: usize,
    times: usize,
) -> Result<LocalArray> {
    let own = x.shape();
    let with = |extent: usize| -> Shape {
        own.iter().take(at).copied().chain([extent]).chain(own.iter().skip(at).copied()).collect()
    };
    let view = super::unsqueeze::view(x, at)?;
    let view = view.broadcast_to(&with(times)).ok_or_else(|| {
        Error::new(ErrorKind::Kernel, format!("{} does not repeat {times} times", x.shape()))
    })?;
    cx.reshape(&view, &own.with_extent(axis, own.extent(axis) * times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::Place;

    fn check(place: Place, repeats: &[usize], want: &[&str]) {
        let x: ask::Placed<'_> = (DType::F32, &[4, 3], &[place]);
        ask::check::<tile>(&tile { repeats: repeats.into() }, &[2], &[x], want);
    }

    #[test]
    fn of_an_axis_that_is_there_several_times_every_device_gets_its_share() {
        // Both devices get all four rows, of which each has two.
        check(Place::Sharded(0), &[2, 1], &["R -> R", "S1 -> S1", "P -> P", "S0 -> S0 +permute of 24"]);
        check(Place::Sharded(1), &[2, 1], &["R -> R", "S1 -> S1", "P -> P"]);
        check(Place::Sharded(0), &[5, 1, 1], &["R -> R", "S0 -> S1", "S1 -> S2", "P -> P"]);
        check(Place::Sharded(0), &[MOST_COPIES + 1, 1], &["R -> R", "S1 -> S1", "P -> P"]);
    }
}
