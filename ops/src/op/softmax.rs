//! Softmax along an axis.

use crate::check;
use crate::elementwise::kin;
use crate::staged::{reduced_bytes, shard, to};
use sharding_core::backend::{BinaryOp, Expr, FusedOp, LocalArray, StepKind, UnaryOp};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, StageCollective, pass_through_rows, replicated_rows};
use sharding_core::{DType, KernelCx, ReduceOp, Result, Shards, StageCx, TensorMeta, sharding_rule};

/// Any axis may be split. On the softmax axis itself the row is staged: the maximum and then the sum along it are combined
/// over the devices, which costs two small all_reduces instead of a gather of the whole.
fn rule(cx: &RuleCx<'_>, axis: isize) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    for own in 0..cx.ndim(0) {
        if own != axis {
            pass_through_rows(cx, 0, &mut rows, |candidate| (candidate == own).then_some(own));
            continue;
        }
        let (own_bytes, sum_bytes) = reduced_bytes(cx, axis);
        let stage = |op, bytes| StageCollective { kind: StepKind::AllReduce(op), bytes };
        for place in std::iter::once(sharded(own)).chain(cx.carried(0, own)) {
            rows.add_staged(
                [place],
                [place],
                [stage(ReduceOp::Max, own_bytes), stage(ReduceOp::Sum, sum_bytes)],
            );
        }
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, axis: isize) -> Result<TensorMeta> {
    check::float("x", x)?;
    x.shape.axis(axis)?;
    Ok(x.clone())
}

fn cases(cases: &mut Cases) {
    for (shape, axis) in [
        (&[7, 5][..], 1),
        (&[7, 5], 0),
        (&[2, 3, 4], -2),
        (&[6], 0),
        (&[3, 1], 1),
        (&[0, 3], 1),
        (&[2, 0], 1),
    ] {
        cases.add([CaseOperand::new(DType::F32, shape)], softmax { axis });
    }
    for dtype in kin(DType::F32) {
        cases.add([CaseOperand::new(*dtype, [7, 5])], softmax { axis: 1 });
    }
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, axis: isize) -> Result<Shards> {
    let layout = cx.operand(0)?;
    let axis = layout.shape().axis(axis)?;
    let reduced = layout.shape().with_extent(axis, 1);
    // Powers and their sums are kept in f32 for narrow floats, as in the kernel.
    let (dtype, wide) = (layout.dtype(), layout.dtype().accumulator());
    let input = |i| to(dtype, wide, Expr::input(i));
    let highest = cx.each(|k, i| k.reduce(ReduceOp::Max, shard(x, i)?, &[axis]))?;
    let highest = cx.all_reduce(ReduceOp::Max, 0, &reduced, highest)?;
    let power = Expr::unary(UnaryOp::Exp, Expr::binary(BinaryOp::Sub, input(0), input(1)));
    let powers = cx.each(|k, i| k.map(&power, &[shard(x, i)?, shard(&highest, i)?]))?;
    let total = cx.each(|k, i| k.reduce(ReduceOp::Sum, shard(&powers, i)?, &[axis]))?;
    let total = cx.all_reduce(ReduceOp::Sum, 0, &reduced, total)?;
    let share = to(wide, dtype, Expr::binary(BinaryOp::Div, Expr::input(0), Expr::input(1)));
    cx.each(|k, i| k.map(&share, &[shard(&powers, i)?, shard(&total, i)?]))
}

/// `exp(x - max(x)) / sum(exp(x - max(x)))` along `axis` (negative counts from the back).
///
/// Any split of `x` is kept. Where `axis` itself is split, the maxima and the sums of the pieces are combined over the
/// devices: two all_reduces of tensors with extent 1 there.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0.0_f32; 8], [2, 4], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let y = softmax(&x, -1)?;
/// assert_eq!(y.mapping(), x.mapping());
/// assert_eq!(y.to_vec::<f32>()?, [0.25; 8]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for anything but floating-point numbers, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn softmax(cx: &mut KernelCx, x: &LocalArray, axis: isize) -> Result<LocalArray> {
    let axis = x.shape().axis(axis)?;
    cx.fused(FusedOp::Softmax { axis }, &[x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::Place;

    #[test]
    fn the_softmax_axis_costs_two_small_all_reduces() {
        let x: ask::Placed<'_> = (DType::F32, &[4, 8], &[Place::Sharded(1)]);
        let rows = ["R -> R", "S0 -> S0", "S1 -> S1 +all_reduce of 16 +all_reduce of 16"];
        ask::check::<softmax>(&softmax { axis: -1 }, &[2], &[x], &rows);
    }
}
