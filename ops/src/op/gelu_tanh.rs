//! The Gaussian error linear unit by its tanh approximation, elementwise.

use crate::expr::expr_of;
use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray, Node, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, Scalar, sharding_rule};

/// `sqrt(2 / π)`.
const SQRT_2_PI: f64 = 0.797_884_560_802_865_4;

/// `(x / 2) * (1 + tanh(sqrt(2 / π) * (x + 0.044715 x³)))`, with the factor `x` taken out of the argument.
const fn nodes(dtype: DType) -> [Node; 13] {
    [
        Node::Input(0),
        Node::Binary(BinaryOp::Mul, 0, 0),
        Node::Const(Scalar::Float(0.044_715 * SQRT_2_PI), dtype),
        Node::Binary(BinaryOp::Mul, 1, 2),
        Node::Const(Scalar::Float(SQRT_2_PI), dtype),
        Node::Binary(BinaryOp::Add, 3, 4),
        Node::Binary(BinaryOp::Mul, 0, 5),
        Node::Unary(UnaryOp::Tanh, 6),
        Node::Const(Scalar::Float(1.0), dtype),
        Node::Binary(BinaryOp::Add, 7, 8),
        Node::Const(Scalar::Float(0.5), dtype),
        Node::Binary(BinaryOp::Mul, 0, 10),
        Node::Binary(BinaryOp::Mul, 11, 9),
    ]
}

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, gelu_tanh {});
}

/// `x / 2 * (1 + tanh(√(2/π) * (x + 0.044715 x³)))`, elementwise: the approximation of [`gelu`](fn@crate::gelu) by Hendrycks
/// and Gimpel, "Gaussian Error Linear Units" (2016), with which some models were trained. Other libraries call it
/// `gelu(approximate="tanh")`, `gelu_new` or `gelu_pytorch_tanh`. Any split of `x` is kept, a Partial `x` is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0.0_f32, 1.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = gelu_tanh(&x)?.to_vec::<f32>()?;
/// assert!(y[0] == 0.0 && (y[1] - 0.841192).abs() < 1e-6);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but floating-point numbers, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_float, cases = cases)]
pub fn gelu_tanh(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.last().map(&expr_of!(x.dtype(), nodes)?, &[x])
}
