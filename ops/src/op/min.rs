//! The minimum along an axis.

use crate::{check, reduction, row};
use sharding_core::backend::LocalArray;
use sharding_core::op::Cases;
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Place, ReduceOp, Result, TensorMeta, sharding_rule};

/// The axis may be split: the minima of the pieces combine by minimum. So do minima of parts that combine so.
fn rule(cx: &RuleCx<'_>, axis: isize, keepdims: bool) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let mut rows = row::reduction_rows(cx, axis, keepdims, Some(ReduceOp::Min));
    rows.add([Place::Partial(ReduceOp::Min)], [Place::Partial(ReduceOp::Min)]);
    Ok(rows)
}

fn shape(x: &TensorMeta, axis: isize, keepdims: bool) -> Result<TensorMeta> {
    let axis = x.shape.axis(axis)?;
    check::not_empty("minimum", x, axis)?;
    Ok(TensorMeta::new(x.dtype, check::reduced(&x.shape, axis, keepdims)))
}

fn cases(cases: &mut Cases) {
    for dtype in [DType::F32, DType::I64] {
        reduction::cases(cases, dtype, |axis, keepdims| min { axis, keepdims });
    }
}

/// The least element along `axis` (negative counts from the back), which stays with extent 1 if `keepdims`, else goes.
/// NaN if any element is.
///
/// If `axis` is split, the result is `Partial(min)`: the minima of the pieces; an empty piece holds the greatest value.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 5.0, 3.0, -4.0], [2, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = min(&x, 0, true)?;
/// assert_eq!(y.layout().places(), [Partial(ReduceOp::Min)]);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, -4.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, [`ErrorKind::Shape`](crate::ErrorKind::Shape)
/// if its global extent is 0, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn min(cx: &mut KernelCx, x: &LocalArray, axis: isize, keepdims: bool) -> Result<LocalArray> {
    let axis = x.shape().axis(axis)?;
    reduction::reduce(cx, ReduceOp::Min, x, axis, keepdims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn parts_of_a_minimum_combine_by_minimum() {
        let x: ask::Placed<'_> = (DType::F32, &[2, 3], &[Place::Replicated]);
        let rows = ["R -> R", "S0 -> S0", "S1 -> Pmin", "Pmin -> Pmin"];
        ask::check::<min>(&min { axis: -1, keepdims: true }, &[2], &[x], &rows);
    }
}
