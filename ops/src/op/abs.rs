//! The absolute value, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{LocalArray, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, sharding_rule};

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, abs {});
    elementwise::unary_cases(cases, DType::I64, abs {});
}

/// `|x|`, elementwise; the least integer of a signed dtype stays as it is, as with Rust's `wrapping_abs`. Any split of `x`
/// is kept, a Partial `x` is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[-1.5_f32, 2.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(abs(&x)?.to_vec::<f32>()?, [1.5, 2.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for truth values, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_number, cases = cases)]
pub fn abs(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.unary(UnaryOp::Abs, x)
}
