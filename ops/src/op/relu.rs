//! `max(x, 0)`, elementwise.

use crate::expr::expr_of;
use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray, Node};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, Scalar, sharding_rule};

const fn nodes(dtype: DType) -> [Node; 3] {
    [Node::Input(0), Node::Const(Scalar::Int(0), dtype), Node::Binary(BinaryOp::Max, 0, 1)]
}

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, relu {});
    elementwise::unary_cases(cases, DType::I64, relu {});
}

/// `max(x, 0)`, elementwise; NaN stays NaN. Any split of `x` is kept, a Partial `x` is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[-1.0_f32, 2.0, -3.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(relu(&x)?.to_vec::<f32>()?, [0.0, 2.0, 0.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for truth values, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_number, cases = cases)]
pub fn relu(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.map(&expr_of!(x.dtype(), nodes)?, &[x])
}
