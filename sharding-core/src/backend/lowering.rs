//! What fused kernels are made of: each one written on the other primitives.
//!
//! A backend that does not have a fused kernel runs its lowering; conformance compares the two where it has.

use super::{Attention, BinaryOp, Expr, FusedOp, IndexMap, Iota, LocalArray, LocalMeta, UnaryOp};
use crate::kernel::KernelCx;
use crate::{DType, Error, ErrorKind, ReduceOp, Result, Scalar, Shape};
use smallvec::SmallVec;

/// Runs a fused kernel by its lowering.
///
/// # Errors
/// [`ErrorKind::Kernel`] for inputs that the kernel does not take, else what the backend says.
pub fn lower(cx: &mut KernelCx<'_>, op: &FusedOp, inputs: &[&LocalArray]) -> Result<LocalArray> {
    if inputs.iter().any(|x| x.dtype() != x.dtype().accumulator())
        && let Some((dtype, _)) = op.result(&inputs.iter().map(|x| x.meta()).collect::<SmallVec<[_; 4]>>())
    {
        return widened(cx, op, inputs, dtype);
    }
    match (op, inputs) {
        (FusedOp::Softmax { axis }, [x]) => softmax(cx, x, *axis),
        (FusedOp::LayerNorm { eps }, [x, gamma, beta]) => layer_norm(cx, x, gamma, beta, *eps),
        (FusedOp::Linear, [x, weight]) => cx.dot(x, &weight.permute(&[1, 0])),
        (FusedOp::Linear, [x, weight, bias]) => {
            let product = cx.dot(x, &weight.permute(&[1, 0]))?;
            cx.binary(BinaryOp::Add, &product, bias)
        }
        (FusedOp::RmsNorm { eps }, [x, weight]) => rms_norm(cx, x, weight, *eps),
        (FusedOp::Attention(op), [query, key, value, mask @ ..]) if mask.len() <= 1 => {
            attention(cx, op, [query, key, value], mask.first().copied())
        }
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
    if made.dtype() == dtype { Ok(made) } else { cx.map(&Expr::cast(dtype, input(0)), &[&made]) }
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

/// Queries that attend at once: the scores of more are never in memory together.
const QUERIES: usize = 64;

/// A block of queries after the other.
fn attention(
    cx: &mut KernelCx<'_>,
    op: &Attention,
    [query, key, value]: [&LocalArray; 3],
    mask: Option<&LocalArray>,
) -> Result<LocalArray> {
    let axis = query.shape().len().saturating_sub(2);
    let queries = query.shape().extent(axis);
    if queries <= QUERIES {
        return attend(cx, op, [query, key, value], mask);
    }
    let mut blocks = Vec::with_capacity(queries.div_ceil(QUERIES));
    for start in (0..queries).step_by(QUERIES) {
        let block = Attention { causal: op.causal.map(|offset| offset.saturating_add(start as i64)), ..*op };
        let rows = |x: &LocalArray| match x.shape().len().checked_sub(2) {
            Some(axis) if x.shape().extent(axis) == queries => x.slice(axis, start, QUERIES),
            _ => x.clone(),
        };
        let (query, mask) = (query.slice(axis, start, QUERIES), mask.map(rows));
        blocks.push(attend(cx, &block, [&query, key, value], mask.as_ref())?);
    }
    let shapes: Vec<Shape> = blocks.iter().map(|block| block.shape().clone()).collect();
    let joined = IndexMap::concat(&shapes, axis)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "blocks that do not join").with_op(cx.op()))?;
    cx.copy(joined, &blocks.iter().collect::<Vec<_>>())
}

/// All scores at once, then their softmax without dividing: the sum is divided by at the end, where it is 0 only for a
/// query that may attend to nothing.
fn attend(
    cx: &mut KernelCx<'_>,
    op: &Attention,
    [query, key, value]: [&LocalArray; 3],
    mask: Option<&LocalArray>,
) -> Result<LocalArray> {
    let metas: SmallVec<[&LocalMeta; 4]> =
        [query, key, value].into_iter().chain(mask).map(|x| x.meta()).collect();
    let extents = op.extents(&metas).ok_or_else(|| {
        Error::new(ErrorKind::Kernel, format!("{op:?} does not take {metas:?}")).with_op(cx.op())
    })?;
    let dtype = query.dtype();
    let number = |value: f64| Expr::constant(Scalar::Float(value), dtype);
    // The heads of a group are an axis of their own here, along which key and value broadcast.
    let grouped = |heads: [usize; 2], last: [usize; 2]| -> Shape {
        extents.batch.iter().copied().chain(heads).chain(last).collect()
    };
    let (hk, g) = (extents.key_heads, extents.group);
    let (l, s, e, ev) = (extents.queries, extents.keys, extents.width, extents.value_width);
    let query = cx.reshape(query, &grouped([hk, g], [l, e]))?;
    let key = cx.reshape(key, &grouped([hk, 1], [s, e]))?;
    let value = cx.reshape(value, &grouped([hk, 1], [s, ev]))?;
    let mut turned: SmallVec<[usize; 4]> = (0..key.shape().len()).collect();
    let last = turned.len() - 1;
    turned.swap(last - 1, last);
    let scores = cx.dot(&query, &key.permute(&turned))?;
    let scores = cx.reshape(&scores, &extents.scores())?;

    let never = || number(f64::NEG_INFINITY);
    let scaled = Expr::binary(BinaryOp::Mul, input(0), number(op.scale));
    let mut scores = match mask {
        None => cx.map(&scaled, &[&scores])?,
        Some(mask) if mask.dtype() == DType::Bool => {
            cx.map(&Expr::select(input(1), scaled, never()), &[&scores, mask])?
        }
        Some(mask) => cx.map(&Expr::binary(BinaryOp::Add, scaled, input(1)), &[&scores, mask])?,
    };
    if let Some(offset) = op.causal {
        let from = |start| Iota { axis: 0, first: 0, start, step: 1.0, dtype: DType::I64 };
        let rows = cx.iota(from(offset as f64), &[l, 1].into())?;
        let columns = cx.iota(from(0.0), &[s].into())?;
        let seen = Expr::binary(BinaryOp::Le, input(2), input(1));
        scores = cx.map(&Expr::select(seen, input(0), never()), &[&scores, &rows, &columns])?;
    }

    let axis = scores.shape().len() - 1;
    let max = cx.reduce(ReduceOp::Max, &scores, &[axis])?;
    let power = Expr::unary(UnaryOp::Exp, Expr::binary(BinaryOp::Sub, input(0), input(1)));
    let nothing = Expr::binary(BinaryOp::Eq, input(1), never());
    let powers = cx.map(&Expr::select(nothing, number(0.0), power), &[&scores, &max])?;
    let sum = cx.reduce(ReduceOp::Sum, &powers, &[axis])?;
    let powers = cx.reshape(&powers, &grouped([hk, g], [l, s]))?;
    let mixed = cx.dot(&powers, &value)?;
    let mixed = cx.reshape(&mixed, &extents.result(false))?;
    if op.parts {
        let shapes = [&mixed, &sum, &max].map(|x| x.shape().clone());
        let joined = IndexMap::concat(&shapes, axis)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "parts that do not join").with_op(cx.op()))?;
        return cx.copy(joined, &[&mixed, &sum, &max]);
    }
    let empty = Expr::binary(BinaryOp::Eq, input(1), number(0.0));
    let mean = Expr::binary(BinaryOp::Div, input(0), input(1));
    cx.map(&Expr::select(empty, number(0.0), mean), &[&mixed, &sum])
}
