//! `lhs * rhs`, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray};
use sharding_core::op::{Cases, Fill};
use sharding_core::{DType, KernelCx, Result, TensorMeta, sharding_rule};

fn shape(lhs: &TensorMeta, rhs: &TensorMeta) -> Result<TensorMeta> {
    check::binary(lhs, rhs)
}

fn cases(cases: &mut Cases) {
    elementwise::binary_cases(cases, DType::F32, Fill::Signed, mul {});
    elementwise::binary_cases(cases, DType::I64, Fill::Signed, mul {});
}

/// `lhs * rhs`, elementwise; shapes broadcast, aligned at the last axis. Either may be a number.
///
/// A Partial operand times a Replicated one stays Partial; two Partial operands do not multiply part by part, so one of
/// them is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let rows = DeviceMapping::new(&mesh, [Sharded(0)])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5, 6], [3, 2], &rows)?;
/// assert_eq!(mul(&x, &x)?.to_vec::<i64>()?, [1, 4, 9, 16, 25, 36]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for two dtypes or truth values, else as every op.
#[sharding_rule(["..., ... -> ..."], linear(each), shape = shape, cases = cases)]
pub fn mul(cx: &mut KernelCx, #[scalar] lhs: &LocalArray, #[scalar] rhs: &LocalArray) -> Result<LocalArray> {
    cx.binary(BinaryOp::Mul, lhs, rhs)
}
