//! The opposite truth value, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{LocalArray, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, sharding_rule};

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::Bool, logical_not {});
}

/// Whether `x` is false, elementwise. Any split of `x` is kept, a Partial `x` is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[true, false, true], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(logical_not(&x)?.to_vec::<bool>()?, [false, true, false]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but truth values, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_truth, cases = cases)]
pub fn logical_not(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.unary(UnaryOp::Not, x)
}
