//! Whether one of the truth values is true, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray};
use sharding_core::op::{Cases, Fill};
use sharding_core::{DType, KernelCx, Result, sharding_rule};

fn cases(cases: &mut Cases) {
    elementwise::binary_cases(cases, DType::Bool, Fill::Signed, logical_or {});
}

/// Whether one of the truth values is true, elementwise. Shapes broadcast, aligned at the last axis; either may be `true` or
/// `false`. Any split is kept, Partial operands are reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let rows = DeviceMapping::new(&mesh, [Sharded(0)])?;
/// let a = Tensor::from_slice(&[false, false, true, true], [4], &rows)?;
/// let b = Tensor::from_slice(&[false, true, false, true], [4], &rows)?;
/// assert_eq!(logical_or(&a, &b)?.to_vec::<bool>()?, [false, true, true, true]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for anything but truth values, else as every op.
#[sharding_rule(["..., ... -> ..."], shape = check::logical, cases = cases)]
pub fn logical_or(
    cx: &mut KernelCx,
    #[scalar] lhs: &LocalArray,
    #[scalar] rhs: &LocalArray,
) -> Result<LocalArray> {
    cx.binary(BinaryOp::Or, lhs, rhs)
}
