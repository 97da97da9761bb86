//! The product along an axis.

use crate::{check, reduction, row};
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Place, ReduceOp, Result, TensorMeta, sharding_rule};

/// The axis may be split: the products of the pieces combine by product. So do products of parts that combine so.
fn rule(cx: &RuleCx<'_>, axis: isize, keepdims: bool) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let mut rows = row::reduction_rows(cx, axis, keepdims, Some(ReduceOp::Prod));
    rows.add([Place::Partial(ReduceOp::Prod)], [Place::Partial(ReduceOp::Prod)]);
    Ok(rows)
}

fn shape(x: &TensorMeta, axis: isize, keepdims: bool) -> Result<TensorMeta> {
    check::number("x", x)?;
    Ok(TensorMeta::new(x.dtype, check::reduced(&x.shape, x.shape.axis(axis)?, keepdims)))
}

fn cases(cases: &mut Cases) {
    for dtype in [DType::F32, DType::I64] {
        reduction::cases(cases, dtype, |axis, keepdims| prod { axis, keepdims });
    }
    cases.add([CaseOperand::new(DType::F32, [0, 3])], prod { axis: 0, keepdims: true });
}

/// The product of the elements along `axis` (negative counts from the back), which stays with extent 1 if `keepdims`, else
/// goes. The product of nothing is 1; integers wrap.
///
/// If `axis` is split, the result is `Partial(prod)`: the products of the pieces, which no device needs to exchange yet.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5, 6], [2, 3], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let y = prod(&x, -1, false)?;
/// assert_eq!(y.layout().places(), [Partial(ReduceOp::Prod)]);
/// assert_eq!(y.to_vec::<i64>()?, [6, 120]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for truth values, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn prod(cx: &mut KernelCx, x: &LocalArray, axis: isize, keepdims: bool) -> Result<LocalArray> {
    let axis = x.shape().axis(axis)?;
    reduction::reduce(cx, ReduceOp::Prod, x, axis, keepdims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn the_axis_leaves_parts_of_a_product() {
        let x: ask::Placed<'_> = (DType::F32, &[2, 3, 4], &[Place::Replicated]);
        let rows = ["R -> R", "S0 -> S0", "S1 -> Pprod", "S2 -> S1", "Pprod -> Pprod"];
        ask::check::<prod>(&prod { axis: 1, keepdims: false }, &[2], &[x], &rows);
    }
}
