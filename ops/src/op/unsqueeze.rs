//! A new tensor axis of extent 1.

use crate::row;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Result, Shape, TensorMeta, sharding_rule};

/// The number of the new axis in the result.
pub(crate) fn new_axis(shape: &Shape, axis: isize) -> Result<usize> {
    let n = shape.len();
    let from_front = if axis < 0 { axis.saturating_add(n as isize + 1) } else { axis };
    usize::try_from(from_front).ok().filter(|axis| *axis <= n).ok_or_else(|| {
        Error::new(ErrorKind::Axis, format!("no new axis of {shape} can have the number {axis}"))
            .with_fix(format!("use a number in {}..={n}", -(n as isize) - 1))
    })
}

/// The shape with a new axis of this extent.
pub(crate) fn with_axis(shape: &Shape, axis: usize, extent: usize) -> Shape {
    shape.iter().take(axis).chain([&extent]).chain(shape.iter().skip(axis)).copied().collect()
}

/// The view with a new axis of extent 1.
pub(crate) fn view(x: &LocalArray, axis: usize) -> Result<LocalArray> {
    let n = x.shape().len();
    let in_front = x.broadcast_to(&with_axis(x.shape(), 0, 1)).ok_or_else(|| {
        Error::new(ErrorKind::Internal, format!("{} does not broadcast to one more axis", x.shape()))
    })?;
    // The new axis is axis 0; those of `x` follow it in their order.
    let order: Vec<usize> = (1..=axis.min(n)).chain([0]).chain(axis.min(n) + 1..=n).collect();
    Ok(in_front.permute(&order))
}

fn rule(cx: &RuleCx<'_>, axis: isize) -> Result<Rows> {
    let Some(x) = cx.operands.first() else { return Ok(Rows::new()) };
    let axis = new_axis(&x.meta.shape, axis)?;
    Ok(row::movement_rows(cx, |own| Some(if own < axis { own } else { own + 1 })))
}

fn shape(x: &TensorMeta, axis: isize) -> Result<TensorMeta> {
    let axis = new_axis(&x.shape, axis)?;
    Ok(TensorMeta::new(x.dtype, Shape::new(with_axis(&x.shape, axis, 1))?))
}

fn cases(cases: &mut Cases) {
    for (shape, axis) in
        [(&[5][..], 0), (&[5], 1), (&[4, 6], 1), (&[4, 6], -1), (&[4, 6], -3), (&[], 0), (&[0, 3], 1)]
    {
        for dtype in [DType::F32, DType::Bool] {
            cases.add([CaseOperand::new(dtype, shape)], unsqueeze { axis });
        }
    }
}

/// `x` with a new axis of extent 1, which has the number `axis` in the result (negative counts from the back of the
/// result: -1 is behind all axes). Splits follow their axes; no data moves, also not inside a device.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = unsqueeze(&x, 0)?;
/// assert_eq!((y.shape().to_vec(), y.layout().places()), (vec![1, 3], &[Sharded(1)][..]));
/// assert_eq!(unsqueeze(&x, -1)?.shape().to_vec(), [3, 1]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for a number that the new axis cannot have, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn unsqueeze(_cx: &mut KernelCx, x: &LocalArray, axis: isize) -> Result<LocalArray> {
    view(x, new_axis(x.shape(), axis)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn axes_behind_the_new_one_are_renumbered() {
        let rows = ["R -> R", "S0 -> S0", "S1 -> S2", "P -> P"];
        ask::check::<unsqueeze>(&unsqueeze { axis: -2 }, &[2], &[ask::f32s(&[2, 4])], &rows);
    }

    #[test]
    fn the_new_axis_counts_from_both_ends() {
        let shape = Shape::from([4, 6]);
        let numbers: Vec<_> = (-4..=3).map(|axis| new_axis(&shape, axis).ok()).collect();
        assert_eq!(numbers, [None, Some(0), Some(1), Some(2), Some(0), Some(1), Some(2), None]);
    }
}
