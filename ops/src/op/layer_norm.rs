//! Layer normalisation over the last axis.

use crate::check;
use crate::elementwise::kin;
use crate::staged::{reduced_bytes, shard, to, widened};
use sharding_core::backend::{BinaryOp, Expr, FusedOp, LocalArray, StepKind, UnaryOp};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, StageCollective, pass_through_rows, replicated_rows};
use sharding_core::{DType, KernelCx, Place, ReduceOp, Result, Shards, StageCx, TensorMeta, sharding_rule};

/// Leading axes may be split, with gamma and beta whole. On the last axis, where gamma and beta are then split alike, the
/// row is staged: the sums of the elements and then of their squared distances are combined over the devices.
fn rule(cx: &RuleCx<'_>, _eps: f64) -> Result<Rows> {
    let last = check::operand_axis(cx, -1)?;
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    pass_through_rows(cx, 0, &mut rows, |axis| (axis != last).then_some(axis));
    let stage =
        StageCollective { kind: StepKind::AllReduce(ReduceOp::Sum), bytes: reduced_bytes(cx, last).1 };
    for place in std::iter::once(sharded(last)).chain(cx.carried(0, last)) {
        let weight: Place = place.on_axis(0);
        rows.add_staged([place, weight, weight], [place], [stage, stage]);
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, gamma: &TensorMeta, beta: &TensorMeta, eps: f64) -> Result<TensorMeta> {
    check::float("x", x)?;
    check::last_axis_vectors(x, &[("gamma", gamma), ("beta", beta)])?;
    check::eps(eps)?;
    Ok(x.clone())
}

fn cases(cases: &mut Cases) {
    let shapes = [&[7, 5][..], &[2, 3, 6], &[6], &[4, 1], &[0, 3], &[2, 0], &[8, 8]];
    let others = kin(DType::F32).iter().map(|dtype| (*dtype, &[7, 5][..]));
    for (dtype, shape) in shapes.map(|shape| (DType::F32, shape)).into_iter().chain(others) {
        let operand = |shape: &[usize]| CaseOperand::new(dtype, shape);
        let last = shape.get(shape.len() - 1..).unwrap_or(&[]);
        cases.add([operand(shape), operand(last), operand(last)], layer_norm { eps: 1e-5 });
    }
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, gamma: &Shards, beta: &Shards, eps: f64) -> Result<Shards> {
    let layout = cx.operand(0)?;
    let last = layout.shape().axis(-1)?;
    let reduced = layout.shape().with_extent(last, 1);
    // Narrow floats are computed in f32, as in the kernel.
    let (dtype, wide) = (layout.dtype(), layout.dtype().accumulator());
    let x = &widened(cx, x)?;
    let number = |value: f64| Expr::constant(value, wide);
    let count = || number(layout.shape().extent(last) as f64);
    let (a, b) = (|| Expr::input(0), || Expr::input(1));
    let mean = |sum| Expr::binary(BinaryOp::Div, sum, count());

    let sums = cx.each(|k, i| k.reduce(ReduceOp::Sum, shard(x, i)?, &[last]))?;
    let sums = cx.all_reduce(ReduceOp::Sum, 0, &reduced, sums)?;
    let centre = Expr::binary(BinaryOp::Sub, a(), mean(b()));
    let centred = cx.each(|k, i| k.map(&centre, &[shard(x, i)?, shard(&sums, i)?]))?;

    let square = Expr::binary(BinaryOp::Mul, a(), a());
    let squares = cx.each(|k, i| {
        let squares = k.map(&square, &[shard(&centred, i)?])?;
        k.reduce(ReduceOp::Sum, &squares, &[last])
    })?;
    let squares = cx.all_reduce(ReduceOp::Sum, 0, &reduced, squares)?;

    let spread = Expr::unary(UnaryOp::Sqrt, Expr::binary(BinaryOp::Add, mean(b()), number(eps)));
    let weight = |i| to(dtype, wide, Expr::input(i));
    let scaled = Expr::binary(BinaryOp::Mul, Expr::binary(BinaryOp::Div, a(), spread), weight(2));
    let out = to(wide, dtype, Expr::binary(BinaryOp::Add, scaled, weight(3)));
    cx.each(|k, i| {
        k.map(&out, &[shard(&centred, i)?, shard(&squares, i)?, shard(gamma, i)?, shard(beta, i)?])
    })
}

/// `(x - mean) / sqrt(variance + eps) * gamma + beta` over the last axis of `x`, with the biased variance; Ba, Kiros and
/// Hinton, "Layer Normalization" (2016). `gamma` and `beta` have the extent of the last axis.
///
/// A split of any axis of `x` is kept. Where the last axis is split, gamma and beta are split alike, and two all_reduces of
/// tensors with extent 1 there combine the moments.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let whole = DeviceMapping::replicated(&mesh);
/// let x = Tensor::from_slice(&[1.0_f32, 3.0, 5.0, 9.0], [2, 2], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let gamma = Tensor::from_slice(&[1.0_f32, 1.0], [2], &whole)?;
/// let beta = Tensor::from_slice(&[0.0_f32, 10.0], [2], &whole)?;
/// assert_eq!(layer_norm(&x, &gamma, &beta, 0.0)?.to_vec::<f32>()?, [-1.0, 11.0, -1.0, 11.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if gamma or beta do not fit the last axis, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for anything but floating-point numbers of one dtype, [`ErrorKind::Argument`](crate::ErrorKind::Argument) for a
/// negative eps, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn layer_norm(
    cx: &mut KernelCx,
    x: &LocalArray,
    gamma: &LocalArray,
    beta: &LocalArray,
    eps: f64,
) -> Result<LocalArray> {
    cx.fused(FusedOp::LayerNorm { eps }, &[x, gamma, beta])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn the_last_axis_takes_the_weights_along() {
        let operands = [ask::f32s(&[4, 8]), ask::f32s(&[8]), ask::f32s(&[8])];
        let rows = ["R R R -> R", "S0 R R -> S0", "S1 S0 S0 -> S1 +all_reduce of 16 +all_reduce of 16"];
        ask::check::<layer_norm>(&layer_norm { eps: 1e-5 }, &[2], &operands, &rows);
    }
}
