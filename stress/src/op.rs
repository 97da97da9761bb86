//! An op of this crate, with a kernel of its own on the CPU.

use sharding_core::backend::{BinaryOp, LocalArray};
use sharding_core::{KernelCx, ReduceOp, Result};
use sharding_ops::{kernel, sharding_rule};

/// The squared distance of every row of `x` to every row of `y`, summed over the features: `[n, f]` and `[m, f]` to
/// `[n, m]`.
///
/// The portable body is written on primitives; [`pairwise_cpu`] replaces it on the CPU.
#[sharding_rule(["n f, m f -> n m"], reduce(f = sum))]
pub fn squared_distance(cx: &mut KernelCx, x: &LocalArray, y: &LocalArray) -> Result<LocalArray> {
    let (n, m, f) = (x.shape().extent(0), y.shape().extent(0), x.shape().extent(1));
    let x = cx.reshape(x, &[n, 1, f].into())?;
    let y = cx.reshape(y, &[1, m, f].into())?;
    let difference = cx.binary(BinaryOp::Sub, &x, &y)?;
    let square = cx.binary(BinaryOp::Mul, &difference, &difference)?;
    let sum = cx.reduce(ReduceOp::Sum, &square, &[2])?;
    cx.reshape(&sum, &[n, m].into())
}

/// The same by `|x|² - 2 x·y + |y|²`, which never holds the differences.
#[kernel(op = squared_distance, backend = "cpu")]
pub fn pairwise_cpu(cx: &mut KernelCx, x: &LocalArray, y: &LocalArray) -> Result<LocalArray> {
    let norm = |cx: &mut KernelCx<'_>, x: &LocalArray| {
        let square = cx.binary(BinaryOp::Mul, x, x)?;
        cx.reduce(ReduceOp::Sum, &square, &[1])
    };
    let (nx, ny) = (norm(cx, x)?, norm(cx, y)?);
    let product = cx.dot(x, &y.permute(&[1, 0]))?;
    let twice = cx.binary(BinaryOp::Add, &product, &product)?;
    let rows = cx.binary(BinaryOp::Sub, &nx, &twice)?;
    cx.binary(BinaryOp::Add, &rows, &ny.permute(&[1, 0]))
}

/// Twice the elements, by a last launch of which a view is given.
#[sharding_rule(["a b -> b a"])]
pub fn doubled_and_turned(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(cx.last().binary(BinaryOp::Add, x, x)?.permute(&[1, 0]))
}
