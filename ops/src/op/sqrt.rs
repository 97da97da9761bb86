//! The square root, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{LocalArray, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, sharding_rule};

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, sqrt {});
}

/// The square root of `x`, elementwise: NaN of what is less than 0. Any split of `x` is kept, a Partial `x` is reduced
/// first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[9.0_f32, 0.25], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(sqrt(&x)?.to_vec::<f32>()?, [3.0, 0.5]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but floating-point numbers, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_float, cases = cases)]
pub fn sqrt(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.unary(UnaryOp::Sqrt, x)
}
