//! sum, max, mean, softmax, layer_norm.

use super::{MAX, MIN, P, Planted, R, add, args, front, planted, s};
use sharding_core::backend::LocalArray;
use sharding_core::backend::{BinaryOp, Expr, StepKind, UnaryOp};
use sharding_core::op::{Op, OpDef};
use sharding_core::rule::{StageCollective, pass_through_rows};
use sharding_core::{KernelCx, ReduceOp, Result};
use sharding_ops::{layer_norm, max, mean, softmax, sum};

/// A mean that divides by what the device holds.
static LOCAL_MEAN: OpDef = OpDef {
    kernel: |cx, operands, _, all, results| {
        let (x, mean) = (*operands.one(0)?, args::<mean>(all));
        let axis = x.shape().axis(mean.axis)?;
        let total = cx.reduce(ReduceOp::Sum, x, &[axis])?;
        let count = Expr::constant(x.shape().extent(axis).max(1) as f64, total.dtype());
        let shape = if mean.keepdims { total.shape().clone() } else { total.shape().without(axis) };
        let total = cx.reshape(&total, &shape)?;
        results.push(cx.map(&Expr::binary(BinaryOp::Div, Expr::input(0), count), &[&total])?);
        Ok(())
    },
    ..*<mean as Op>::DEF
};

/// A sum that starts from 1 on every device.
static SUM_FROM_ONE: OpDef = OpDef {
    kernel: |cx, operands, _, all, results| {
        let (x, sum) = (*operands.one(0)?, args::<sum>(all));
        let axis = x.shape().axis(sum.axis)?;
        let total = cx.reduce(ReduceOp::Sum, x, &[axis])?;
        let shape = if sum.keepdims { total.shape().clone() } else { total.shape().without(axis) };
        let total = cx.reshape(&total, &shape)?;
        let one = Expr::constant(1_i64, total.dtype());
        results.push(cx.map(&Expr::binary(BinaryOp::Add, Expr::input(0), one), &[&total])?);
        Ok(())
    },
    ..*<sum as Op>::DEF
};

/// A softmax whose totals are combined by maximum.
static SOFTMAX_OF_MAXIMA: OpDef = OpDef {
    stages: |cx, operands, all| {
        let x = operands.one(0)?;
        let layout = cx.operand(0)?;
        let axis = layout.shape().axis(args::<softmax>(all).axis)?;
        let reduced = layout.shape().with_extent(axis, 1);
        let highest = cx.each(|k, i| k.reduce(ReduceOp::Max, &x[i], &[axis]))?;
        let highest = cx.all_reduce(ReduceOp::Max, 0, &reduced, highest)?;
        let power = Expr::unary(UnaryOp::Exp, Expr::binary(BinaryOp::Sub, Expr::input(0), Expr::input(1)));
        let powers = cx.each(|k, i| k.map(&power, &[&x[i], &highest[i]]))?;
        let total = cx.each(|k, i| k.reduce(ReduceOp::Sum, &powers[i], &[axis]))?;
        let total = cx.all_reduce(ReduceOp::Max, 0, &reduced, total)?;
        Ok(vec![cx.each(|k, i| k.binary(BinaryOp::Div, &powers[i], &total[i]))?])
    },
    ..*<softmax as Op>::DEF
};

/// A softmax of which every device forgets the others.
static SOFTMAX_ALONE: OpDef = OpDef {
    stages: |cx, operands, all| {
        let x = operands.one(0)?;
        let axis = cx.operand(0)?.shape().axis(args::<softmax>(all).axis)?;
        let local = |k: &mut KernelCx<'_>, x: &LocalArray| -> Result<LocalArray> {
            let highest = k.reduce(ReduceOp::Max, x, &[axis])?;
            let power =
                Expr::unary(UnaryOp::Exp, Expr::binary(BinaryOp::Sub, Expr::input(0), Expr::input(1)));
            let powers = k.map(&power, &[x, &highest])?;
            let total = k.reduce(ReduceOp::Sum, &powers, &[axis])?;
            k.binary(BinaryOp::Div, &powers, &total)
        };
        Ok(vec![cx.each(|k, i| local(k, &x[i]))?])
    },
    ..*<softmax as Op>::DEF
};

fn all_reduce(op: ReduceOp, bytes: usize) -> StageCollective {
    StageCollective { kind: StepKind::AllReduce(op), bytes }
}

#[test]
fn reductions_and_staged_rows() {
    super::check(&planted());
}

fn planted() -> Vec<Planted> {
    vec![
        planted!("a split sum is whole"; <sum as Op>::DEF;
            "-> (Replicated)"; |cx, all: sum, rows| { let axis = front(cx, all.axis); rows.add([s(axis)], [R]) }),
        planted!("pieces of a sum combined by maximum"; <sum as Op>::DEF;
            "-> (Partial(max))"; |cx, all: sum, rows| { let axis = front(cx, all.axis); rows.add([s(axis)], [MAX]) }),
        planted!("axes behind the summed one keep their number"; <sum as Op>::DEF;
        "(Sharded(2)) -> (Sharded(0))"; |cx, all: sum, rows| {
            let axis = front(cx, all.axis);
            if !all.keepdims && axis == 1 {
                pass_through_rows(cx, 0, rows, |own| (own > axis).then_some(0));
            }
        }),
        planted!("a sum of maxima"; <sum as Op>::DEF;
            "(Partial(max)) -> (Partial(max))"; |cx, rows| add(cx, rows, &[MAX], &[MAX])),
        planted!("a negative axis counted from one too far"; <sum as Op>::DEF;
        "(Sharded(0)) -> (Partial(sum))"; |cx, all: sum, rows| {
            let axis = if all.axis < 0 { (cx.ndim(0) as isize + all.axis - 1) as usize } else { all.axis as usize };
            if axis < cx.ndim(0) { rows.add([s(axis)], [P]) }
        }),
        planted!("a sum that starts from 1 on every device"; &SUM_FROM_ONE;
            "-> (Partial(sum))"),
        planted!("pieces of a maximum are added"; <max as Op>::DEF;
            "-> (Partial(sum))"; |cx, all: max, rows| { let axis = front(cx, all.axis); rows.add([s(axis)], [P]) }),
        planted!("a maximum of parts"; <max as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P], &[P])),
        planted!("a maximum of minima"; <max as Op>::DEF;
            "(Partial(min)) -> (Partial(min))"; |cx, rows| add(cx, rows, &[MIN], &[MIN])),
        planted!("a split maximum is whole"; <max as Op>::DEF;
            "-> (Replicated)"; |cx, all: max, rows| { let axis = front(cx, all.axis); rows.add([s(axis)], [R]) }),
        planted!("a mean by the local count"; &LOCAL_MEAN;
            "-> (Partial(sum))"),
        planted!("a split mean is whole"; <mean as Op>::DEF;
            "-> (Replicated)"; |cx, all: mean, rows| { let axis = front(cx, all.axis); rows.add([s(axis)], [R]) }),
        planted!("a mean of maxima"; <mean as Op>::DEF;
            "(Partial(max)) -> (Partial(max))"; |cx, rows| add(cx, rows, &[MAX], &[MAX])),
        planted!("a softmax split along its axis without stages"; <softmax as Op>::DEF;
            "(Sharded(0)) -> (Sharded(0))"; |cx, rows| pass_through_rows(cx, 0, rows, Some)),
        planted!("a softmax of parts"; <softmax as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P], &[P])),
        planted!("a staged softmax whose totals are combined by maximum"; &SOFTMAX_OF_MAXIMA;
            "staged"),
        planted!("a staged softmax without a collective"; &SOFTMAX_ALONE;
            "staged"),
        planted!("a staged row that declares fewer collectives than it runs"; <softmax as Op>::DEF;
        "staged"; |cx, all: softmax, rows| {
            let axis = front(cx, all.axis);
            rows.clear();
            sharding_core::rule::replicated_rows(cx, rows);
            let bytes = cx.operands[0].meta.bytes() / cx.extent(0, axis).max(1);
            rows.add_staged([s(axis)], [s(axis)], [all_reduce(ReduceOp::Sum, bytes)]);
        }),
        planted!("a staged row that declares fewer bytes than it moves"; <softmax as Op>::DEF;
        "staged"; |cx, all: softmax, rows| {
            let axis = front(cx, all.axis);
            rows.clear();
            sharding_core::rule::replicated_rows(cx, rows);
            rows.add_staged([s(axis)], [s(axis)], [all_reduce(ReduceOp::Max, 4), all_reduce(ReduceOp::Sum, 4)]);
        }),
        planted!("a staged row of an op without stages"; <sum as Op>::DEF;
            "staged"; |_cx, rows| rows.add_staged([s(0)], [s(0)], [all_reduce(ReduceOp::Sum, 4)])),
        planted!("a layer norm split along its axis without stages"; <layer_norm as Op>::DEF;
            "(Sharded(1), Sharded(0), Sharded(0)) -> (Sharded(1))";
            |cx, rows| add(cx, rows, &[s(1), s(0), s(0)], &[s(1)])),
        planted!("a staged layer norm whose weights are whole"; <layer_norm as Op>::DEF;
        "(Sharded(1), Replicated, Replicated) -> (Sharded(1)) staged"; |cx, rows| if cx.ndim(0) == 2 {
            let bytes = cx.operands[0].meta.bytes() / cx.extent(0, 1).max(1);
            let stage = all_reduce(ReduceOp::Sum, bytes);
            rows.add_staged([s(1), R, R], [s(1)], [stage, stage]);
        }),
        planted!("beta counted on every device"; <layer_norm as Op>::DEF;
            "(Replicated, Partial(sum), Replicated) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[R, P, R], &[P])),
        planted!("a layer norm of parts"; <layer_norm as Op>::DEF;
            "(Partial(sum), Replicated, Replicated) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P, R, R], &[P])),
    ]
}
