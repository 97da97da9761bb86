//! `lhs ≠ rhs`, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, Expr, LocalArray, Node, UnaryOp};
use sharding_core::op::{Cases, Fill};
use sharding_core::{DType, KernelCx, Result, sharding_rule};

fn cases(cases: &mut Cases) {
    elementwise::binary_cases(cases, DType::F32, Fill::Signed, ne {});
    elementwise::binary_cases(cases, DType::I64, Fill::Signed, ne {});
    elementwise::binary_cases(cases, DType::Bool, Fill::Signed, ne {});
}

/// Whether `lhs ≠ rhs`, elementwise, as truth values: NaN differs from everything. Shapes broadcast, aligned at the last axis; either may
/// be a number. Any split is kept, Partial operands are reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(ne(&x, 2.0)?.to_vec::<bool>()?, [true, false, true]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for two dtypes, else as every op.
#[sharding_rule(["..., ... -> ..."], shape = check::equality, cases = cases)]
pub fn ne(cx: &mut KernelCx, #[scalar] lhs: &LocalArray, #[scalar] rhs: &LocalArray) -> Result<LocalArray> {
    static NODES: [Node; 4] =
        [Node::Input(0), Node::Input(1), Node::Binary(BinaryOp::Eq, 0, 1), Node::Unary(UnaryOp::Not, 2)];
    cx.map(&Expr::from_static(&NODES), &[lhs, rhs])
}
