//! Normalisation by the root of the mean square over the last axis.

use crate::check;
use crate::elementwise::kin;
use crate::staged::{reduced_bytes, shard, to};
use sharding_core::backend::{BinaryOp, Expr, FusedOp, LocalArray, StepKind, UnaryOp};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, StageCollective, pass_through_rows, replicated_rows};
use sharding_core::{DType, KernelCx, ReduceOp, Result, Shards, StageCx, TensorMeta, sharding_rule};

/// Leading axes may be split, with the weight whole. On the last axis, where the weight is then split alike, the row is
/// staged: the sums of the squares are combined over the devices.
fn rule(cx: &RuleCx<'_>, _eps: f64) -> Result<Rows> {
    let last = check::operand_axis(cx, -1)?;
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    pass_through_rows(cx, 0, &mut rows, |axis| (axis != last).then_some(axis));
    let (_, bytes) = reduced_bytes(cx, last);
    let stage = StageCollective { kind: StepKind::AllReduce(ReduceOp::Sum), bytes };
    for place in std::iter::once(sharded(last)).chain(cx.carried(0, last)) {
        rows.add_staged([place, place.on_axis(0)], [place], [stage]);
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, weight: &TensorMeta, eps: f64) -> Result<TensorMeta> {
    check::float("x", x)?;
    check::last_axis_vectors(x, &[("weight", weight)])?;
    check::eps(eps)?;
    Ok(x.clone())
}

fn cases(cases: &mut Cases) {
    let shapes = [&[7, 5][..], &[2, 3, 6], &[6], &[4, 1], &[0, 3], &[2, 0], &[8, 8]];
    let others = kin(DType::F32).iter().map(|dtype| (*dtype, &[7, 5][..]));
    for (dtype, shape) in shapes.map(|shape| (DType::F32, shape)).into_iter().chain(others) {
        let last = shape.get(shape.len() - 1..).unwrap_or(&[]);
        cases.add([shape, last].map(|shape| CaseOperand::new(dtype, shape)), rms_norm { eps: 1e-5 });
    }
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, weight: &Shards, eps: f64) -> Result<Shards> {
    let layout = cx.operand(0)?;
    let last = layout.shape().axis(-1)?;
    // As in the kernel: squares of narrow floats are taken and summed in f32.
    let (dtype, wide) = (layout.dtype(), layout.dtype().accumulator());
    let element = || to(dtype, wide, Expr::input(0));
    let square = Expr::binary(BinaryOp::Mul, element(), element());
    let squares = cx.each(|k, i| {
        let squares = k.map(&square, &[shard(x, i)?])?;
        k.reduce(ReduceOp::Sum, &squares, &[last])
    })?;
    let squares = cx.all_reduce(ReduceOp::Sum, 0, &layout.shape().with_extent(last, 1), squares)?;

    let count = Expr::constant(layout.shape().extent(last) as f64, wide);
    let mean = Expr::binary(BinaryOp::Div, Expr::input(1), count);
    let root = Expr::unary(UnaryOp::Sqrt, Expr::binary(BinaryOp::Add, mean, Expr::constant(eps, wide)));
    let normal = Expr::binary(BinaryOp::Div, element(), root);
    let out = to(wide, dtype, Expr::binary(BinaryOp::Mul, normal, to(dtype, wide, Expr::input(2))));
    cx.each(|k, i| k.map(&out, &[shard(x, i)?, shard(&squares, i)?, shard(weight, i)?]))
}

/// `x / sqrt(mean(x²) + eps) * weight` over the last axis of `x`; Zhang and Sennrich, "Root Mean Square Layer
/// Normalization" (2019). `weight` has the extent of the last axis.
///
/// A split of any axis of `x` is kept. Where the last axis is split, the weight is split alike, and one all_reduce of a
/// tensor with extent 1 there combines the squares.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 7.0], [1, 2], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let weight = Tensor::from_slice(&[1.0_f32, 10.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = rms_norm(&x, &weight, 0.0)?;
/// assert_eq!(y.mapping(), x.mapping());
/// assert_eq!(y.to_vec::<f32>()?, [0.2, 14.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the weight does not fit the last axis, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for anything but floating-point numbers of one dtype, [`ErrorKind::Argument`](crate::ErrorKind::Argument) for a
/// negative eps, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn rms_norm(cx: &mut KernelCx, x: &LocalArray, weight: &LocalArray, eps: f64) -> Result<LocalArray> {
    cx.fused(FusedOp::RmsNorm { eps }, &[x, weight])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn the_last_axis_takes_the_weight_along() {
        let operands = [ask::f32s(&[4, 8]), ask::f32s(&[8])];
        let rows = ["R R -> R", "S0 R -> S0", "S1 S0 -> S1 +all_reduce of 16"];
        ask::check::<rms_norm>(&rms_norm { eps: 1e-5 }, &[2], &operands, &rows);
    }
}
