//! The exponential, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{LocalArray, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, sharding_rule};

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, exp {});
}

/// `e` to the power of `x`, elementwise. Any split of `x` is kept. A Partial `x` is reduced
/// first, parts of a maximum or minimum too: rounded results need not grow with `x` to the last bit.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0.0_f32, 1.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = exp(&x)?.to_vec::<f32>()?;
/// assert!(y[0] == 1.0 && (y[1] - std::f32::consts::E).abs() < 1e-6);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but floating-point numbers, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_float, cases = cases)]
pub fn exp(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.last().unary(UnaryOp::Exp, x)
}
