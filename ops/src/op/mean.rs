//! The mean along an axis.

use crate::{check, reduction, row, staged};
use sharding_core::backend::{BinaryOp, Expr, LocalArray};
use sharding_core::op::Cases;
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Place, ReduceOp, Result, TensorMeta, sharding_rule};

/// As a sum: every device divides by the global extent, so parts add up to the mean.
fn rule(cx: &RuleCx<'_>, axis: isize, keepdims: bool) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let mut rows = row::reduction_rows(cx, axis, keepdims, Some(ReduceOp::Sum));
    rows.add([Place::PARTIAL], [Place::PARTIAL]);
    Ok(rows)
}

fn shape(x: &TensorMeta, axis: isize, keepdims: bool) -> Result<TensorMeta> {
    check::float("x", x)?;
    let axis = x.shape.axis(axis)?;
    check::not_empty("mean", x, axis)?;
    Ok(TensorMeta::new(x.dtype, check::reduced(&x.shape, axis, keepdims)))
}

fn cases(cases: &mut Cases) {
    reduction::cases(cases, DType::F32, |axis, keepdims| mean { axis, keepdims });
}

/// The mean of the elements along `axis` (negative counts from the back), which stays with extent 1 if `keepdims`, else
/// goes.
///
/// If `axis` is split, the result is Partial: every device divides its sum by the global extent.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 6.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = mean(&x, 0, true)?;
/// assert_eq!(y.layout().places(), [Partial(ReduceOp::Sum)]);
/// assert_eq!(y.to_vec::<f32>()?, [3.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, [`ErrorKind::Shape`](crate::ErrorKind::Shape)
/// if its global extent is 0, [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but floating-point numbers, else
/// as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn mean(cx: &mut KernelCx, x: &LocalArray, axis: isize, keepdims: bool) -> Result<LocalArray> {
    let axis = x.shape().axis(axis)?;
    let extent = cx.operand(0)?.shape().extent(axis);
    // The sum of narrow floats is kept in f32: it may be beyond their range where the mean is not.
    let (dtype, wide) = (x.dtype(), x.dtype().accumulator());
    let widened = if wide == dtype { x.clone() } else { cx.map(&Expr::cast(wide, Expr::input(0)), &[x])? };
    let total = reduction::reduce(cx, ReduceOp::Sum, &widened, axis, keepdims)?;
    let mean = Expr::binary(BinaryOp::Div, Expr::input(0), Expr::constant(extent as f64, wide));
    cx.map(&staged::to(wide, dtype, mean), &[&total])
}
