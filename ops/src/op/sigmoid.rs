//! The logistic function, elementwise.

use crate::expr::expr_of;
use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray, Node, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::{DType, KernelCx, Result, Scalar, sharding_rule};

/// `1 / (1 + exp(-x))`: where the exponential is infinite, the result is 0.
const fn nodes(dtype: DType) -> [Node; 6] {
    [
        Node::Input(0),
        Node::Unary(UnaryOp::Neg, 0),
        Node::Unary(UnaryOp::Exp, 1),
        Node::Const(Scalar::Float(1.0), dtype),
        Node::Binary(BinaryOp::Add, 2, 3),
        Node::Binary(BinaryOp::Div, 3, 4),
    ]
}

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, sigmoid {});
}

/// The logistic function `1 / (1 + exp(-x))`, elementwise. Any split of `x` is kept. A Partial `x` is reduced
/// first, parts of a maximum or minimum too: rounded results need not grow with `x` to the last bit.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0.0_f32, -200.0, 200.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(sigmoid(&x)?.to_vec::<f32>()?, [0.5, 0.0, 1.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for anything but floating-point numbers, else as every op.
#[sharding_rule(["... -> ..."], shape = check::unary_float, cases = cases)]
pub fn sigmoid(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.last().map(&expr_of!(x.dtype(), nodes)?, &[x])
}
