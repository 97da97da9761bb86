//! Every primitive and every collective step, written as its definition reads: what backends are compared with.
//!
//! Slow on purpose: one element at a time, integers wrapped and floats computed in f64 and rounded after each step; to
//! f32 for f16 and bf16, which are rounded to their dtype at the end of a primitive.

mod random;

use super::host::{HostArray, combine, flat_indices, nearest, rounded, unravel, wrapped};
use crate::backend::{
    Attention, BinaryOp, Expr, FusedOp, Gather, IndexMap, Node, Primitive, Reduce, Step, StepKind, UnaryOp,
};
use crate::{DType, Error, ErrorKind, Place, ReduceOp, Result, Scalar, Shape, TensorLayout};

/// The result of a primitive for a result of this dtype and shape.
///
/// # Errors
/// [`ErrorKind::Kernel`] for an index out of range, or inputs that do not fit the primitive.
pub fn primitive(
    primitive: &Primitive,
    inputs: &[&HostArray],
    dtype: DType,
    shape: &Shape,
) -> Result<HostArray> {
    let values = match primitive {
        Primitive::Map(expr) => map(expr, inputs, dtype, shape),
        Primitive::Reduce(reduce) => reduced(reduce, input(inputs, 0)?, shape),
        Primitive::Dot => dot(input(inputs, 0)?, input(inputs, 1)?, shape),
        Primitive::Gather(gather) => return gathered(gather, input(inputs, 0)?, input(inputs, 1)?, shape),
        Primitive::Copy(map) => copied(map, inputs, dtype),
        Primitive::Iota(iota) => Some(
            (0..shape.elements())
                .map(|flat| {
                    let i = unravel(shape, flat).get(iota.axis).copied().unwrap_or(0);
                    let value = iota.start + iota.step * (iota.first + i) as f64;
                    if dtype.is_float() { number(value, dtype) } else { wrapped(value as i128, dtype) }
                })
                .collect(),
        ),
        Primitive::Random(random) => random::random(random, dtype),
        Primitive::Fused(FusedOp::Softmax { axis }) => softmax(input(inputs, 0)?, *axis),
        Primitive::Fused(FusedOp::LayerNorm { eps }) => {
            layer_norm(input(inputs, 0)?, input(inputs, 1)?, input(inputs, 2)?, *eps)
        }
        Primitive::Fused(FusedOp::Linear) => {
            linear(input(inputs, 0)?, input(inputs, 1)?, inputs.get(2).copied(), shape)
        }
        Primitive::Fused(FusedOp::RmsNorm { eps }) => rms_norm(input(inputs, 0)?, input(inputs, 1)?, *eps),
        Primitive::Fused(FusedOp::Attention(op)) => attention(op, inputs, dtype, shape),
    };
    let misfit = || Error::new(ErrorKind::Kernel, format!("{primitive:?} does not fit its inputs"));
    let values = values.ok_or_else(misfit)?;
    if values.len() != shape.elements() {
        return Err(misfit());
    }
    Ok(HostArray { dtype, shape: shape.clone(), values })
}

fn input<'a>(inputs: &[&'a HostArray], i: usize) -> Result<&'a HostArray> {
    inputs.get(i).copied().ok_or_else(|| Error::new(ErrorKind::Kernel, format!("there is no input {i}")))
}

/// Whether a primitive is defined for inputs of these dtypes: there is no exponential of an integer.
pub fn is_defined(primitive: &Primitive, inputs: &[DType]) -> bool {
    let one = |dtype: DType| cast(Scalar::Int(1), dtype);
    match primitive {
        Primitive::Map(expr) => expr.dtypes(inputs).is_some_and(|dtypes| {
            let of = |i: u8| dtypes.get(usize::from(i)).copied().unwrap_or(DType::Bool);
            expr.nodes().iter().all(|node| match *node {
                Node::Const(value, dtype) => value.to_bytes(dtype).is_some(),
                Node::Unary(op, x) => unary(op, of(x), one(of(x))).is_some(),
                Node::Binary(op, a, b) => binary(op, of(a), one(of(a)), one(of(b))).is_some(),
                Node::Input(_) | Node::Select(..) | Node::Cast(..) => true,
            })
        }),
        Primitive::Dot => inputs.iter().all(|dtype| *dtype != DType::Bool),
        Primitive::Iota(iota) => iota.dtype != DType::Bool,
        Primitive::Random(random) => random.distribution.has(random.dtype),
        Primitive::Gather(_) => inputs.get(1) == Some(&DType::I64),
        Primitive::Fused(FusedOp::Softmax { .. } | FusedOp::LayerNorm { .. } | FusedOp::RmsNorm { .. }) => {
            inputs.iter().all(|dtype| dtype.is_float())
        }
        Primitive::Fused(_) => inputs.iter().all(|dtype| *dtype != DType::Bool),
        Primitive::Reduce(_) | Primitive::Copy(_) => true,
    }
}

/// A number as an element: rounded, or as Rust's `as` converts.
fn number(value: f64, dtype: DType) -> Scalar {
    match (dtype, dtype.lowest().as_integer(), dtype.highest().as_integer()) {
        (DType::Bool, ..) => Scalar::Bool(value != 0.0),
        (_, Some(low), Some(high)) => wrapped((value as i128).clamp(low, high), dtype),
        _ => rounded(value, dtype),
    }
}

/// A scalar in a dtype, as Rust's `as` converts.
fn cast(value: Scalar, dtype: DType) -> Scalar {
    match value.as_integer() {
        Some(value) if dtype.is_integer() => wrapped(value, dtype),
        Some(value) if dtype == DType::Bool => Scalar::Bool(value != 0),
        Some(value) if dtype == DType::F32 => Scalar::Float(f64::from(value as f32)),
        // An f64 between would round it once more.
        Some(_) if matches!(dtype, DType::F16 | DType::BF16) => nearest(value, dtype),
        _ => number(value.as_f64(), dtype),
    }
}

/// As [`rounded`], for what is computed in a dtype: f16 and bf16 in f32. Integers and truth values stay as they are.
fn round(value: Scalar, dtype: DType) -> Scalar {
    match value {
        Scalar::Float(value) if dtype == DType::F64 => Scalar::Float(value),
        Scalar::Float(value) => Scalar::Float(f64::from(value as f32)),
        other => other,
    }
}

/// The element of a broadcast array (aligned at the last axis) at an index of the result.
fn broadcast_at(array: &HostArray, index: &[usize]) -> Option<Scalar> {
    let lead = index.len().checked_sub(array.shape.len())?;
    let flat = array.shape.iter().zip(index.iter().skip(lead)).try_fold(0, |flat, (extent, i)| {
        let i = if *extent == 1 { 0 } else { *i };
        (i < *extent).then_some(flat * extent + i)
    })?;
    array.values.get(flat).copied()
}

fn map(expr: &Expr, inputs: &[&HostArray], dtype: DType, shape: &Shape) -> Option<Vec<Scalar>> {
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype).collect();
    let dtypes = expr.dtypes(&dtypes)?;
    (0..shape.elements())
        .map(|flat| {
            let index = unravel(shape, flat);
            let mut steps: Vec<Scalar> = Vec::new();
            for (node, dtype) in expr.nodes().iter().zip(&dtypes) {
                let at = |i: u8| steps.get(usize::from(i)).copied();
                let of = |i: u8| dtypes.get(usize::from(i)).copied();
                let value = match *node {
                    Node::Input(i) => broadcast_at(inputs.get(usize::from(i))?, &index)?,
                    Node::Const(Scalar::Float(value), _) if dtype.is_float() => Scalar::Float(value),
                    Node::Const(value, dtype) => cast(value, dtype),
                    Node::Unary(op, x) => unary(op, of(x)?, at(x)?)?,
                    Node::Binary(op, a, b) => binary(op, of(a)?, at(a)?, at(b)?)?,
                    Node::Select(c, a, b) => match at(c)? {
                        Scalar::Bool(true) => at(a)?,
                        Scalar::Bool(false) => at(b)?,
                        _ => return None,
                    },
                    Node::Cast(dtype, x) => cast(at(x)?, dtype),
                };
                steps.push(round(value, *dtype));
            }
            Some(cast(steps.pop()?, dtype))
        })
        .collect()
}

/// A function of one element of a dtype; `None` where the dtype does not have it.
pub fn unary(op: UnaryOp, dtype: DType, x: Scalar) -> Option<Scalar> {
    if let Some(x) = x.as_integer() {
        return Some(match op {
            UnaryOp::Neg => wrapped(-x, dtype),
            UnaryOp::Abs => wrapped(x.abs(), dtype),
            _ => return None,
        });
    }
    Some(match (op, x) {
        (UnaryOp::Not, Scalar::Bool(x)) => Scalar::Bool(!x),
        (op, Scalar::Float(x)) => Scalar::Float(match op {
            UnaryOp::Neg => -x,
            UnaryOp::Abs => x.abs(),
            UnaryOp::Exp => x.exp(),
            UnaryOp::Log => x.ln(),
            UnaryOp::Sqrt => x.sqrt(),
            UnaryOp::Rsqrt => 1.0 / x.sqrt(),
            UnaryOp::Tanh => x.tanh(),
            UnaryOp::Erf => erf(x),
            UnaryOp::Not => return None,
        }),
        _ => return None,
    })
}

/// A function of two elements of a dtype; `None` where the dtype does not have it.
pub fn binary(op: BinaryOp, dtype: DType, a: Scalar, b: Scalar) -> Option<Scalar> {
    if let (Some(a), Some(b)) = (a.as_integer(), b.as_integer()) {
        return Some(match op {
            BinaryOp::Eq => Scalar::Bool(a == b),
            BinaryOp::Lt => Scalar::Bool(a < b),
            BinaryOp::Le => Scalar::Bool(a <= b),
            BinaryOp::Max => wrapped(a.max(b), dtype),
            BinaryOp::Min => wrapped(a.min(b), dtype),
            BinaryOp::Add => wrapped(a + b, dtype),
            BinaryOp::Sub => wrapped(a - b, dtype),
            BinaryOp::Mul => wrapped(a.wrapping_mul(b), dtype),
            BinaryOp::Div => wrapped(a.checked_div(b)?, dtype),
            BinaryOp::Pow | BinaryOp::And | BinaryOp::Or => return None,
        });
    }
    Some(match (op, a, b) {
        (BinaryOp::And, Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(a && b),
        (BinaryOp::Or, Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(a || b),
        (BinaryOp::Eq, a, b) => Scalar::Bool(a == b),
        (BinaryOp::Max, a, b) => combine(ReduceOp::Max, dtype, a, b),
        (BinaryOp::Min, a, b) => combine(ReduceOp::Min, dtype, a, b),
        (op, Scalar::Float(a), Scalar::Float(b)) => Scalar::Float(match op {
            BinaryOp::Lt => return Some(Scalar::Bool(a < b)),
            BinaryOp::Le => return Some(Scalar::Bool(a <= b)),
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            BinaryOp::Pow => a.powf(b),
            _ => return None,
        }),
        (BinaryOp::Lt, Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(!a & b),
        (BinaryOp::Le, Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(a <= b),
        _ => return None,
    })
}

/// The error function by the series `2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!` (Abramowitz and Stegun 7.1.6), whose
/// terms have one sign, so that nothing cancels; beyond 6, 1 is as close.
fn erf(x: f64) -> f64 {
    if x.abs() >= 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

fn reduced(reduce: &Reduce, x: &HostArray, shape: &Shape) -> Option<Vec<Scalar>> {
    let mut out = vec![reduce.op.identity(x.dtype); shape.elements()];
    let strides = shape.strides();
    for (flat, value) in x.values.iter().enumerate() {
        let index = unravel(&x.shape, flat);
        let kept = index.iter().zip(&strides).enumerate().filter(|(axis, _)| !reduce.axes.contains(axis));
        let to: usize = kept.map(|(_, (i, stride))| i * stride.unsigned_abs()).sum();
        let slot = out.get_mut(to)?;
        *slot = combine(reduce.op, x.dtype, *slot, *value);
    }
    Some(out.into_iter().map(|value| cast(value, x.dtype)).collect())
}

fn dot(a: &HostArray, b: &HostArray, shape: &Shape) -> Option<Vec<Scalar>> {
    let k = *a.shape.last()?;
    let zero = ReduceOp::Sum.identity(a.dtype);
    (0..shape.elements())
        .map(|flat| {
            let mut at_a = unravel(shape, flat);
            let mut at_b = at_a.clone();
            let (rows, columns) = (at_a.len().checked_sub(2)?, at_a.len().checked_sub(1)?);
            let mut sum = zero;
            for i in 0..k {
                *at_a.get_mut(columns)? = i;
                *at_b.get_mut(rows)? = i;
                let (x, y) = (broadcast_at(a, &at_a)?, broadcast_at(b, &at_b)?);
                sum = combine(ReduceOp::Sum, a.dtype, sum, combine(ReduceOp::Prod, a.dtype, x, y));
            }
            Some(cast(sum, a.dtype))
        })
        .collect()
}

fn linear(x: &HostArray, weight: &HostArray, bias: Option<&HostArray>, shape: &Shape) -> Option<Vec<Scalar>> {
    let k = *x.shape.last()?;
    (0..shape.elements())
        .map(|flat| {
            let mut at = unravel(shape, flat);
            let column = at.pop()?;
            let mut sum = match bias {
                Some(bias) => broadcast_at(bias, &[column])?,
                None => ReduceOp::Sum.identity(x.dtype),
            };
            for i in 0..k {
                let own = [at.as_slice(), &[i]].concat();
                let (a, b) = (broadcast_at(x, &own)?, broadcast_at(weight, &[column, i])?);
                sum = combine(ReduceOp::Sum, x.dtype, sum, combine(ReduceOp::Prod, x.dtype, a, b));
            }
            Some(cast(sum, x.dtype))
        })
        .collect()
}

fn gathered(gather: &Gather, table: &HostArray, indices: &HostArray, shape: &Shape) -> Result<HostArray> {
    let strides = table.shape.strides();
    let mut values = Vec::with_capacity(shape.elements());
    for flat in 0..shape.elements() {
        let index = unravel(shape, flat);
        let own = index.iter().skip(gather.axis).take(indices.shape.len());
        let number = own.zip(indices.shape.iter()).fold(0, |flat, (i, extent)| flat * extent + i);
        let Some(Scalar::Int(row)) = indices.values.get(number).copied() else {
            return Err(Error::new(ErrorKind::Kernel, "indices must be i64"));
        };
        if !(0..gather.bound).contains(&row) {
            return Err(Error::new(ErrorKind::Kernel, format!("index {row} is outside 0..{}", gather.bound)));
        }
        let before = index.iter().take(gather.axis).copied();
        let after = index.iter().skip(gather.axis + indices.shape.len()).copied();
        let local = row - gather.base;
        let inside = usize::try_from(local).ok().filter(|row| *row < table.shape.extent(gather.axis));
        // Rows that another device holds are zeros here: their parts are summed.
        let value = inside.and_then(|row| {
            let at: usize = before
                .chain([row])
                .chain(after)
                .zip(&strides)
                .map(|(i, stride)| i * stride.unsigned_abs())
                .sum();
            table.values.get(at).copied()
        });
        values.push(value.unwrap_or(ReduceOp::Sum.identity(table.dtype)));
    }
    Ok(HostArray { dtype: table.dtype, shape: shape.clone(), values })
}

fn copied(map: &IndexMap, inputs: &[&HostArray], dtype: DType) -> Option<Vec<Scalar>> {
    let mut out = vec![cast(map.fill, dtype); map.shape.elements()];
    for piece in &map.pieces {
        let source = inputs.get(piece.operand)?;
        let boxed = piece.into.iter().map(|range| std::iter::once(range.clone()).collect()).collect();
        for flat in flat_indices(&map.shape, &boxed) {
            let index = unravel(&map.shape, flat);
            let steps = index.iter().zip(&piece.into).zip(&piece.strides);
            let from = steps.fold(piece.offset, |from, ((i, range), stride)| {
                from + stride * (*i as isize - range.start as isize)
            });
            *out.get_mut(flat)? = *source.values.get(usize::try_from(from).ok()?)?;
        }
    }
    Some(out)
}

/// The values along an axis through an element.
fn line(x: &HostArray, axis: usize, flat: usize) -> Vec<f64> {
    let stride = x.shape.strides().get(axis).map_or(0, |stride| stride.unsigned_abs());
    let start = flat - unravel(&x.shape, flat).get(axis).copied().unwrap_or(0) * stride;
    (0..x.shape.extent(axis))
        .filter_map(|i| x.values.get(start + i * stride))
        .map(|value| value.as_f64())
        .collect()
}

fn softmax(x: &HostArray, axis: usize) -> Option<Vec<Scalar>> {
    let values = x.values.iter().enumerate().map(|(flat, value)| {
        let line = line(x, axis, flat);
        let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = line.iter().map(|value| (value - max).exp()).sum();
        rounded((value.as_f64() - max).exp() / sum, x.dtype)
    });
    Some(values.collect())
}

fn layer_norm(x: &HostArray, gamma: &HostArray, beta: &HostArray, eps: f64) -> Option<Vec<Scalar>> {
    let axis = x.shape.len().checked_sub(1)?;
    let n = x.shape.extent(axis);
    x.values
        .iter()
        .enumerate()
        .map(|(flat, value)| {
            let line = line(x, axis, flat);
            let mean = line.iter().sum::<f64>() / n as f64;
            let var = line.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64;
            let (gamma, beta) = (gamma.values.get(flat % n)?, beta.values.get(flat % n)?);
            let scaled = (value.as_f64() - mean) / (var + eps).sqrt();
            Some(rounded(scaled * gamma.as_f64() + beta.as_f64(), x.dtype))
        })
        .collect()
}

fn rms_norm(x: &HostArray, weight: &HostArray, eps: f64) -> Option<Vec<Scalar>> {
    let axis = x.shape.len().checked_sub(1)?;
    let n = x.shape.extent(axis);
    let values = x.values.iter().enumerate().map(|(flat, value)| {
        let squares: f64 = line(x, axis, flat).iter().map(|value| value * value).sum();
        let weight = weight.values.get(flat % n)?.as_f64();
        Some(rounded(value.as_f64() / (squares / n as f64 + eps).sqrt() * weight, x.dtype))
    });
    values.collect()
}

/// Every weight of a query by itself.
fn attention(op: &Attention, inputs: &[&HostArray], dtype: DType, shape: &Shape) -> Option<Vec<Scalar>> {
    let [query, key, value, mask @ ..] = inputs else { return None };
    let at = |x: &HostArray, index: &[usize]| broadcast_at(x, index).map(|value| value.as_f64());
    let keys = key.shape.extent(key.shape.len().checked_sub(2)?);
    let mut values = Vec::with_capacity(shape.elements());
    for flat in 0..shape.elements() {
        let mut index = unravel(shape, flat);
        let (column, row) = (index.pop()?, index.pop()?);
        let mut own = index.clone();
        if let (Some(head), Some(axis)) = (own.last_mut(), index.len().checked_sub(1)) {
            *head /= query.shape.extent(axis) / key.shape.extent(axis).max(1);
        }
        let place = |lead: &[usize], i: usize, j: usize| [lead, &[i, j]].concat();
        let mut scores = Vec::with_capacity(keys);
        for j in 0..keys {
            let products = (0..query.shape.extent(index.len() + 1))
                .map(|t| Some(at(query, &place(&index, row, t))? * at(key, &place(&own, j, t))?));
            let mut score = products.sum::<Option<f64>>()? * op.scale;
            if let Some(mask) = mask.first() {
                match broadcast_at(mask, &place(&index, row, j))? {
                    Scalar::Bool(true) => {}
                    Scalar::Bool(false) => score = f64::NEG_INFINITY,
                    other => score += other.as_f64(),
                }
            }
            if op.causal.is_some_and(|offset| j as i64 > row as i64 + offset) {
                score = f64::NEG_INFINITY;
            }
            scores.push(score);
        }
        let greater = |a: f64, b: f64| {
            if a.is_nan() {
                a
            } else if b > a || b.is_nan() {
                b
            } else {
                a
            }
        };
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, greater);
        let weight = |score: &f64| if max == f64::NEG_INFINITY { 0.0 } else { (score - max).exp() };
        let sum: f64 = scores.iter().map(weight).sum();
        let width = value.shape.extent(index.len() + 1);
        let number = if column < width {
            let terms = scores
                .iter()
                .enumerate()
                .map(|(j, score)| Some(weight(score) * at(value, &place(&own, j, column))?));
            let mixed = terms.sum::<Option<f64>>()?;
            if op.parts || sum == 0.0 { mixed } else { mixed / sum }
        } else if column == width {
            sum
        } else {
            max
        };
        values.push(round(Scalar::Float(number), dtype));
    }
    Some(values)
}

/// The shards of a step's target from all shards of its source, by position.
///
/// # Errors
/// [`ErrorKind::Internal`] if a target element lies outside of what its group holds.
pub fn step(step: &Step, shards: &[HostArray]) -> Result<Vec<HostArray>> {
    let (source, target) = (&step.source, &step.target);
    (0..target.mesh().num_devices())
        .map(|position| target_shard(step, source, target, shards, position))
        .collect()
}

fn target_shard(
    step: &Step,
    source: &TensorLayout,
    target: &TensorLayout,
    shards: &[HostArray],
    position: usize,
) -> Result<HostArray> {
    let lost = || {
        Error::new(
            ErrorKind::Internal,
            format!("{step}: device {position} needs what its group does not hold"),
        )
    };
    let members: Vec<usize> = match step.kind {
        StepKind::LocalSlice | StepKind::KeepOneCopy(_) | StepKind::Relabel => vec![position],
        StepKind::Move if source.mesh().same_grid(target.mesh()) && source.places() == target.places() => {
            vec![position]
        }
        StepKind::Move => (0..source.mesh().num_devices()).collect(),
        _ => source.mesh().group(position, &step.axes).to_vec(),
    };
    if members.as_slice() == [position] && source.places() == target.places() {
        return shards.get(position).cloned().ok_or_else(lost);
    }
    // Where each member keeps an element of the whole, by its row-major number.
    let shape = source.shape();
    let held: Vec<Vec<usize>> =
        members.iter().map(|member| flat_indices(shape, &source.region(*member))).collect();
    let value_of = |member: usize, element: usize| -> Option<Scalar> {
        let at = held.get(member)?.iter().position(|flat| *flat == element)?;
        shards.get(*members.get(member)?)?.values.get(at).copied()
    };
    let keeps = step.axes.iter().all(|axis| {
        let whole = source.places().get(*axis) == Some(&Place::Replicated);
        !whole || source.mesh().coord(position, *axis) == 0
    });
    let mut values = Vec::new();
    for element in flat_indices(shape, &target.region(position)) {
        let mut found = (0..members.len()).filter_map(|member| value_of(member, element));
        values.push(match step.kind {
            StepKind::KeepOneCopy(op) => {
                let own = if keeps { found.next() } else { None };
                own.unwrap_or(op.identity(source.dtype()))
            }
            StepKind::AllReduce(op) | StepKind::ReduceScatter(op) => {
                let parts: Vec<Scalar> = found.collect();
                // So few parts are combined in what the dtype is computed in, and rounded once.
                let combined = tree(op, source.dtype(), &parts).ok_or_else(lost)?;
                cast(combined, source.dtype())
            }
            _ => found.next().ok_or_else(lost)?,
        });
    }
    Ok(HostArray { dtype: source.dtype(), shape: target.local_shape(position), values })
}

/// The fixed binary tree of reductions: the left half has `ceil(n/2)` members.
fn tree(op: ReduceOp, dtype: DType, parts: &[Scalar]) -> Option<Scalar> {
    match parts {
        [] => None,
        [one] => Some(*one),
        _ => {
            let (left, right) = parts.split_at(parts.len().div_ceil(2));
            Some(round(combine(op, dtype, tree(op, dtype, left)?, tree(op, dtype, right)?), dtype))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_is_that_of_the_tables() {
        for (x, want) in
            [(0.0, 0.0), (0.5, 0.520_499_877_813), (1.0, 0.842_700_792_949), (-2.0, -0.995_322_265_019)]
        {
            assert!((erf(x) - want).abs() < 1e-11, "{x}");
        }
    }

    #[test]
    fn the_tree_is_the_contract_s() {
        let parts = [1e8, 1.0, -1e8, 1.0, 1.0].map(Scalar::Float);
        // ((1e8 + 1) + -1e8) + (1 + 1), in f32
        assert_eq!(tree(ReduceOp::Sum, DType::F32, &parts), Some(Scalar::Float(2.0)));
        assert_eq!(tree(ReduceOp::Sum, DType::F32, &[]), None);
    }
}
