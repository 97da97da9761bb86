//! What fused kernels are made of: each one written on the other primitives.
//!
//! A backend that does not have a fused kernel runs its lowering; conformance compares the two where it has.

use super::{BinaryOp, Expr, FusedOp, LocalArray, UnaryOp};
use crate::kernel::KernelCx;
use crate::{DType, Error, ErrorKind, ReduceOp, Result, Scalar};

/// Runs a fused kernel by its lowering.
///
/// # Errors
/// [`ErrorKind::Kernel`] for inputs that the kernel does not take, else what the backend says.
pub fn lower(cx: &mut KernelCx<'_>, op: &FusedOp, inputs: &[&LocalArray]) -> Result<LocalArray> {
    if let Some(first) = inputs.first()
        && inputs.iter().any(|x| x.dtype() != x.dtype().accumulator())
    {
        return widened(cx, op, inputs, first.dtype());
    }
    match (op, inputs) {
        (FusedOp::Softmax { axis }, [x]) => softmax(cx, x, *axis),
        (FusedOp::LayerNorm { eps }, [x, gamma, beta]) => layer_norm(cx, x, gamma, beta, *eps),
        (FusedOp::Linear, [x, weight, bias]) => {
            let product = cx.dot(x, &weight.permute(&[1, 0]))?;
            cx.binary(BinaryOp::Add, &product, bias)
        }
        (FusedOp::RmsNorm { eps }, [x, weight]) => rms_norm(cx, x, weight, *eps),
        _ => Err(Error::new(ErrorKind::Kernel, format!("{op:?} does not take {} inputs", inputs.len()))
            .with_op(cx.op())),
    }
}

fn input(i: u8) -> Expr {
    Expr::input(i)
}

/// f16 and bf16 are computed in f32, by the fused kernel where the backend has it, and rounded once at the end.
fn widened(cx: &mut KernelCx<'_>, op: &FusedOp, inputs: &[&LocalArray], dtype: DType) -> Result<LocalArray> {
    let mut wide = Vec::with_capacity(inputs.len());
    for x in inputs {
        let to = x.dtype().accumulator();
        wide.push(if to == x.dtype() { (*x).clone() } else { cx.map(&Expr::cast(to, input(0)), &[x])? });
    }
    let made = cx.fused(op.clone(), &wide.iter().collect::<Vec<_>>())?;
    cx.map(&Expr::cast(dtype, input(0)), &[&made])
}

/// The greatest element is taken off first, so that no exponential overflows.
fn softmax(cx: &mut KernelCx<'_>, x: &LocalArray, axis: usize) -> Result<LocalArray> {
    let max = cx.reduce(ReduceOp::Max, x, &[axis])?;
    let shifted = Expr::binary(BinaryOp::Sub, input(0), input(1));
    let exp = cx.map(&Expr::unary(UnaryOp::Exp, shifted), &[x, &max])?;
    let sum = cx.reduce(ReduceOp::Sum, &exp, &[axis])?;
    cx.binary(BinaryOp::Div, &exp, &sum)
}

/// The variance is the mean of the squared deviations, which loses less than the difference of two means.
fn layer_norm(
    cx: &mut KernelCx<'_>,
    x: &LocalArray,
    gamma: &LocalArray,
    beta: &LocalArray,
    eps: f64,
) -> Result<LocalArray> {
    let (dtype, axis) = (x.dtype(), x.shape().len().saturating_sub(1));
    let count = Expr::constant(Scalar::Float(x.shape().extent(axis).max(1) as f64), dtype);
    let sum = cx.reduce(ReduceOp::Sum, x, &[axis])?;
    let mean = Expr::binary(BinaryOp::Div, input(1), count.clone());
    let deviation = cx.map(&Expr::binary(BinaryOp::Sub, input(0), mean), &[x, &sum])?;
    let square = cx.binary(BinaryOp::Mul, &deviation, &deviation)?;
    let squares = cx.reduce(ReduceOp::Sum, &square, &[axis])?;
    let variance = Expr::binary(BinaryOp::Div, input(1), count);
    let scale = Expr::unary(
        UnaryOp::Rsqrt,
        Expr::binary(BinaryOp::Add, variance, Expr::constant(Scalar::Float(eps), dtype)),
    );
    let normal = Expr::binary(BinaryOp::Mul, input(0), scale);
    let scaled = Expr::binary(BinaryOp::Add, Expr::binary(BinaryOp::Mul, normal, input(2)), input(3));
    cx.map(&scaled, &[&deviation, &squares, gamma, beta])
}

fn rms_norm(cx: &mut KernelCx<'_>, x: &LocalArray, weight: &LocalArray, eps: f64) -> Result<LocalArray> {
    let (dtype, axis) = (x.dtype(), x.shape().len().saturating_sub(1));
    let square = cx.binary(BinaryOp::Mul, x, x)?;
    let sum = cx.reduce(ReduceOp::Sum, &square, &[axis])?;
    let number = |value| Expr::constant(Scalar::Float(value), dtype);
    let mean = Expr::binary(BinaryOp::Div, input(1), number(x.shape().extent(axis).max(1) as f64));
    let root = Expr::unary(UnaryOp::Sqrt, Expr::binary(BinaryOp::Add, mean, number(eps)));
    let normal = Expr::binary(BinaryOp::Div, input(0), root);
    cx.map(&Expr::binary(BinaryOp::Mul, normal, input(2)), &[x, &sum, weight])
}
