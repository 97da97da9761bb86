//! The sigmoid-weighted linear unit, elementwise.

use crate::expr::expr_of;
use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray, Node, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, Scalar, sharding_rule};

/// `x / (1 + exp(-x))`.
const fn nodes(dtype: DType) -> [Node; 6] {
    [
        Node::Input(0),
        Node::Unary(UnaryOp::Neg, 0),
        Node::Unary(UnaryOp::Exp, 1),
        Node::Const(Scalar::Float(1.0), dtype),
        Node::Binary(BinaryOp::Add, 2, 3),
        Node::Binary(BinaryOp::Div, 0, 4),
    ]
}

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, silu {});
}

/// `x / (1 + exp(-x))`, elementwise: `x` times its [`sigmoid`](fn@crate::sigmoid); Elfwing, Uchibe and Doya,
/// "Sigmoid-Weighted Linear Units for Neural Network Function Approximation in Reinforcement Learning" (2017). Also known as
/// swish. Any split of `x` is kept, a Partial `x` is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0.0_f32, 1.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = silu(&x)?.to_vec::<f32>()?;
/// assert!(y[0] == 0.0 && (y[1] - 0.731059).abs() < 1e-6);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but floating-point numbers, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_float, cases = cases)]
pub fn silu(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.last().map(&expr_of!(x.dtype(), nodes)?, &[x])
}
