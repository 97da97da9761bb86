//! The Gaussian error linear unit, elementwise.

use crate::expr::expr_of;
use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray, Node, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, Scalar, sharding_rule};
use std::f64::consts::FRAC_1_SQRT_2;

/// `(x / 2) * (1 + erf(x / sqrt(2)))`.
const fn nodes(dtype: DType) -> [Node; 9] {
    [
        Node::Input(0),
        Node::Const(Scalar::Float(FRAC_1_SQRT_2), dtype),
        Node::Binary(BinaryOp::Mul, 0, 1),
        Node::Unary(UnaryOp::Erf, 2),
        Node::Const(Scalar::Float(1.0), dtype),
        Node::Binary(BinaryOp::Add, 3, 4),
        Node::Const(Scalar::Float(0.5), dtype),
        Node::Binary(BinaryOp::Mul, 0, 6),
        Node::Binary(BinaryOp::Mul, 7, 5),
    ]
}

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, gelu {});
}

/// `x * Φ(x)`, elementwise, with the distribution function Φ of the normal distribution: `x / 2 * (1 + erf(x / √2))`, the
/// exact form of Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016); [`gelu_tanh`](fn@crate::gelu_tanh) is its tanh
/// approximation. Any split of
/// `x` is kept, a Partial `x` is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0.0_f32, 1.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = gelu(&x)?.to_vec::<f32>()?;
/// assert!(y[0] == 0.0 && (y[1] - 0.841345).abs() < 1e-6);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but floating-point numbers, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_float, cases = cases)]
pub fn gelu(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.last().map(&expr_of!(x.dtype(), nodes)?, &[x])
}
