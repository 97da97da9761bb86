//! Neighbouring tensor axes merged into one.

use super::reshape;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Result, Shape, Shards, StageCx, TensorMeta, sharding_rule,
};

/// The extents with axes `start..=end` merged. A tensor without axes becomes one of one element.
fn dims(shape: &Shape, start: isize, end: isize) -> Result<Vec<isize>> {
    if shape.is_empty() {
        // As in PyTorch and MAX: its only axes are the one it gets.
        let one = Shape::from([1]);
        one.axis(start)?;
        one.axis(end)?;
        return Ok(vec![1]);
    }
    let (first, last) = (shape.axis(start)?, shape.axis(end)?);
    if first > last {
        return Err(Error::new(
            ErrorKind::Axis,
            format!("the axes to merge end before they start: {start}, {end} of {shape}"),
        )
        .with_fix(format!("exchange them: flatten(&x, {end}, {start})")));
    }
    // Extents and their products are at most `isize::MAX`; see `Shape::new`.
    let extent = |axes: &[usize]| axes.iter().product::<usize>() as isize;
    let (before, rest) = shape.split_at(first);
    let (merged, after) = rest.split_at(last + 1 - first);
    let alone = |axes: &[usize]| axes.iter().map(|extent| *extent as isize).collect::<Vec<_>>();
    Ok([alone(before), vec![extent(merged)], alone(after)].concat())
}

fn rule(cx: &RuleCx<'_>, start: isize, end: isize) -> Result<Rows> {
    let Some(x) = cx.operands.first() else { return Ok(Rows::new()) };
    reshape::rule(cx, &dims(&x.meta.shape, start, end)?)
}

fn shape(x: &TensorMeta, start: isize, end: isize) -> Result<TensorMeta> {
    reshape::shape(x, &dims(&x.shape, start, end)?)
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, start: isize, end: isize) -> Result<Shards> {
    let dims = dims(cx.operand(0)?.shape(), start, end)?;
    reshape::stages(cx, x, &dims)
}

fn cases(cases: &mut Cases) {
    for (shape, start, end) in [
        (&[4, 6][..], 0, -1),
        (&[2, 3, 5], 1, 2),
        (&[6, 4, 2], 0, 1),
        (&[7, 8], 0, 1),
        (&[1, 8, 3], 0, 1),
        (&[8], 0, 0),
        (&[4, 0, 3], 1, -1),
        (&[], 0, -1),
    ] {
        for dtype in [DType::F32, DType::I64] {
            cases.add([CaseOperand::new(dtype, shape)], flatten { start, end });
        }
    }
}

/// `x` with its axes `start..=end` (negative counts from the back) merged into one, in row-major order:
/// `flatten(&x, 0, -1)` has one axis. A tensor without axes becomes one of one element.
///
/// Placements and copies as of [`reshape`](fn@crate::reshape) to that shape.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0_i64; 24], [4, 3, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = flatten(&x, 1, -1)?;
/// assert_eq!((y.shape().to_vec(), y.layout().places()), (vec![4, 6], &[Sharded(0)][..]));
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for axes that are not there or in the wrong order, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn flatten(cx: &mut KernelCx, x: &LocalArray, start: isize, end: isize) -> Result<LocalArray> {
    let _ = (start, end);
    let shape = cx.result_shape(0)?;
    cx.reshape(x, &shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn the_first_of_the_merged_axes_keeps_its_split() {
        let rows = ["R -> R", "S0 -> S0", "S1 -> S1", "P -> P"];
        ask::check::<flatten>(&flatten { start: 1, end: 2 }, &[2], &[ask::f32s(&[2, 4, 3])], &rows);
    }

    #[test]
    fn axes_are_merged_in_order_and_counted_from_both_ends() {
        let shape = Shape::from([2, 3, 5]);
        assert_eq!(dims(&shape, 0, -1).unwrap(), [30]);
        assert_eq!(dims(&shape, -2, 2).unwrap(), [2, 15]);
        assert_eq!(dims(&shape, 1, 1).unwrap(), [2, 3, 5]);
        assert_eq!(dims(&Shape::default(), 0, -1).unwrap(), [1]);
        for (start, end) in [(2, 1), (0, 3), (-4, 0)] {
            assert_eq!(dims(&shape, start, end).unwrap_err().kind(), ErrorKind::Axis);
        }
        assert!(dims(&Shape::default(), 0, 1).is_err());
    }
}
