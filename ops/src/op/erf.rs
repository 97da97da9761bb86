//! The error function, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{LocalArray, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, sharding_rule};

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, erf {});
}

/// The error function `2 / sqrt(π) * ∫ exp(-t²) dt` from 0 to `x`, elementwise. Any split of `x` is kept, a Partial `x` is
/// reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0.0_f32, -9.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(erf(&x)?.to_vec::<f32>()?, [0.0, -1.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but floating-point numbers, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_float, cases = cases)]
pub fn erf(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.last().unary(UnaryOp::Erf, x)
}
