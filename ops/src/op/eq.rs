//! `lhs = rhs`, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray};
use sharding_core::op::{Cases, Fill};
use sharding_core::{DType, KernelCx, Result, sharding_rule};

fn cases(cases: &mut Cases) {
    elementwise::binary_cases(cases, DType::F32, Fill::Signed, eq {});
    elementwise::binary_cases(cases, DType::I64, Fill::Signed, eq {});
    elementwise::binary_cases(cases, DType::Bool, Fill::Signed, eq {});
}

/// Whether `lhs = rhs`, elementwise, as truth values: NaN equals nothing. Shapes broadcast, aligned at the last axis; either may
/// be a number. Any split is kept, Partial operands are reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(eq(&x, 2.0)?.to_vec::<bool>()?, [false, true, false]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for two dtypes, else as every op.
#[sharding_rule(["..., ... -> ..."], shape = check::equality, cases = cases)]
pub fn eq(cx: &mut KernelCx, #[scalar] lhs: &LocalArray, #[scalar] rhs: &LocalArray) -> Result<LocalArray> {
    cx.binary(BinaryOp::Eq, lhs, rhs)
}
