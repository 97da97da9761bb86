//! The sum along an axis.

use crate::{check, reduction, row};
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Place, ReduceOp, Result, TensorMeta, sharding_rule};

/// The summed axis may be split: the sums of the pieces are the parts of a Partial. Sums of parts are parts of the sum.
fn rule(cx: &RuleCx<'_>, axis: isize, keepdims: bool) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let mut rows = row::reduction_rows(cx, axis, keepdims, Some(ReduceOp::Sum));
    rows.add([Place::PARTIAL], [Place::PARTIAL]);
    Ok(rows)
}

fn shape(x: &TensorMeta, axis: isize, keepdims: bool) -> Result<TensorMeta> {
    check::number("x", x)?;
    Ok(TensorMeta::new(x.dtype, check::reduced(&x.shape, x.shape.axis(axis)?, keepdims)))
}

fn cases(cases: &mut Cases) {
    for dtype in [DType::F32, DType::I64] {
        reduction::cases(cases, dtype, |axis, keepdims| sum { axis, keepdims });
    }
    cases.add([CaseOperand::new(DType::F32, [0, 3])], sum { axis: 0, keepdims: true });
}

/// The sum of the elements along `axis` (negative counts from the back), which stays with extent 1 if `keepdims`, else
/// goes. The sum of nothing is 0.
///
/// If `axis` is split, the result is Partial: the sums of the pieces, which no device needs to exchange yet.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5, 6], [2, 3], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let y = sum(&x, -1, false)?;
/// assert_eq!(y.layout().places(), [Partial(ReduceOp::Sum)]);
/// assert_eq!(y.to_vec::<i64>()?, [6, 15]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for truth values, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn sum(cx: &mut KernelCx, x: &LocalArray, axis: isize, keepdims: bool) -> Result<LocalArray> {
    let axis = x.shape().axis(axis)?;
    reduction::reduce(cx, ReduceOp::Sum, x, axis, keepdims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn the_summed_axis_leaves_parts_and_later_axes_are_renumbered() {
        let x: ask::Placed<'_> = (DType::F32, &[2, 3, 4], &[Place::Replicated]);
        let rows = ["R -> R", "S0 -> S0", "S1 -> P", "S2 -> S1", "P -> P"];
        ask::check::<sum>(&sum { axis: 1, keepdims: false }, &[2], &[x], &rows);
    }
}
