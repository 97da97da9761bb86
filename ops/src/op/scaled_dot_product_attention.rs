//! Attention: for each query the mean of values, weighted by the softmax of its scores.

use crate::check;
use crate::elementwise::kin;
use crate::staged::shard;
use sharding_core::backend::{Attention, BinaryOp, Expr, FusedOp, LocalArray, StepKind, UnaryOp};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::{Ragged, sharded};
use sharding_core::rule::{Rows, RuleCx, StageCollective, replicated_rows};
use sharding_core::split::balanced;
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Place, ReduceOp, Result, Shape, Shards, StageCx, TensorMeta,
    broadcast, sharding_rule,
};

/// The operands' numbers, and that of the mask where there is one.
const QUERY: usize = 0;
const KEY: usize = 1;
const VALUE: usize = 2;
const MASK: usize = 3;

/// The shape of the scores `[b.., hq, l, s]`, on whose axes rows are made.
struct Scores<'a> {
    cx: &'a RuleCx<'a>,
    axes: usize,
}

impl Scores<'_> {
    fn extent(&self, axis: usize) -> usize {
        if axis + 1 == self.axes { self.cx.extent(KEY, axis - 1) } else { self.cx.extent(QUERY, axis) }
    }

    /// The mask's axis that lies along an axis of the scores, unless it broadcasts there.
    fn mask_axis(&self, axis: usize) -> Option<usize> {
        let own = (axis + self.cx.ndim(MASK)).checked_sub(self.axes)?;
        let extent = self.cx.extent(MASK, own);
        (self.cx.operands.len() > MASK && extent != 1 && extent == self.extent(axis)).then_some(own)
    }

    fn mask(&self, axis: usize, place: Place) -> Place {
        self.mask_axis(axis).map_or(Place::Replicated, |own| place.on_axis(own))
    }

    /// `Sharded`, and what the operands have that is not built in, for an axis of the scores and of these operands.
    fn places(&self, axis: usize, operands: &[(usize, usize)]) -> Vec<Place> {
        let mask = self.mask_axis(axis).map(|own| (MASK, own));
        let carried = operands.iter().copied().chain(mask);
        let carried = carried.filter_map(|(i, own)| self.cx.carried(i, own)).map(|place| place.on_axis(axis));
        std::iter::once(sharded(axis)).chain(carried).collect()
    }

    fn add(&self, rows: &mut Rows, qkv: [Place; 3], mask: Place, result: Place) {
        let mask = (self.cx.operands.len() > MASK).then_some(mask);
        rows.add(qkv.into_iter().chain(mask), [result]);
    }

    /// Query heads split with the key heads that they attend to.
    fn heads(&self, rows: &mut Rows, axis: usize) {
        let (cx, whole) = (self.cx, Place::Replicated);
        let (queries, keys) = (cx.extent(QUERY, axis), cx.extent(KEY, axis));
        let group = queries.checked_div(keys).unwrap_or(1);
        if group == 1 {
            for place in self.places(axis, &[(QUERY, axis), (KEY, axis), (VALUE, axis)]) {
                self.add(rows, [place; 3], self.mask(axis, place), place);
            }
            return;
        }
        let ways = committed_ways(cx, QUERY, axis);
        let together = (0..ways).all(|part| {
            let (own, key) = (balanced(queries, ways, part), balanced(keys, ways, part));
            own.start == key.start * group && own.end == key.end * group
        });
        if together && ways == committed_ways(cx, KEY, axis) {
            let place = sharded(axis);
            self.add(rows, [place; 3], self.mask(axis, place), place);
        }
        for place in self.places(axis, &[(QUERY, axis)]).into_iter().skip(1) {
            if let Some(key) = ragged(cx, place, queries, |size| (size % group == 0).then_some(size / group))
            {
                self.add(rows, [place, key, key], self.mask(axis, place), place);
            }
        }
        for key in [KEY, VALUE].into_iter().filter_map(|operand| cx.carried(operand, axis)) {
            if let Some(place) = ragged(cx, key, keys, |size| size.checked_mul(group)) {
                self.add(rows, [place, key, key], self.mask(axis, place), place);
            }
        }
        if keys == 1 {
            for place in self.places(axis, &[(QUERY, axis)]) {
                self.add(rows, [place, whole, whole], self.mask(axis, place), place);
            }
        }
    }
}

/// Over how many devices an operand's axis is split by the mesh axis in question and those before it.
fn committed_ways(cx: &RuleCx<'_>, operand: usize, axis: usize) -> usize {
    let places = cx.operands.get(operand).into_iter().flat_map(|operand| operand.places.iter());
    let before = places.take(cx.axis).zip(cx.mesh_shape);
    let split = before.filter(|(place, _)| place.tensor_axis() == Some(axis));
    cx.ways() * split.map(|(_, ways)| *ways).product::<usize>()
}

/// The placement whose pieces, in the order of a custom one that splits the same axis of `extent`, have other sizes;
/// `None` where its pieces do not follow each other, or a size has no counterpart.
fn ragged(
    cx: &RuleCx<'_>,
    place: Place,
    extent: usize,
    size: impl Fn(usize) -> Option<usize>,
) -> Option<Place> {
    let Place::Custom(custom) = place else { return None };
    let (mut end, mut sizes) = (0, Vec::with_capacity(cx.ways()));
    for part in 0..cx.ways() {
        let ranges = custom.placement().ranges(extent, cx.ways(), part);
        let start = end;
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            if range.start != end {
                return None;
            }
            end = range.end;
        }
        sizes.push(size(end - start)?);
    }
    Some(Ragged::place(place.tensor_axis()?, sizes))
}

/// Batch axes, heads and queries may be split, and so may the components of the values, for which every device computes
/// all weights. Where the keys are split, the row is staged: each device attends to its own keys, and what they give is
/// combined by the greatest scores. Values that are not narrow may come in parts.
fn rule(cx: &RuleCx<'_>, causal: bool, _scale: Option<f64>) -> Result<Rows> {
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    let axes = cx.ndim(QUERY);
    let Some(tokens) = axes.checked_sub(2) else { return Ok(rows) };
    let (scores, last, whole) = (Scores { cx, axes }, tokens + 1, Place::Replicated);
    for axis in 0..tokens.saturating_sub(1) {
        for place in scores.places(axis, &[(QUERY, axis), (KEY, axis), (VALUE, axis)]) {
            scores.add(&mut rows, [place; 3], scores.mask(axis, place), place);
        }
    }
    if let Some(axis) = tokens.checked_sub(1) {
        scores.heads(&mut rows, axis);
    }
    // A causal mask is told where the local queries and keys begin: they must follow each other.
    let count = |places: Vec<Place>| if causal { 1 } else { places.len() };
    let places = scores.places(tokens, &[(QUERY, tokens)]);
    for place in places.iter().take(count(places.clone())) {
        scores.add(&mut rows, [*place, whole, whole], scores.mask(tokens, *place), *place);
    }
    // What the stages combine lies on the other mesh axes as the query does.
    let staged = cx.committed.iter().any(|row| row.is_staged());
    let values_differ = cx.committed.iter().filter_map(|row| row.operands.get(VALUE));
    let values_differ =
        values_differ.into_iter().any(|place| place.is_partial() || place.tensor_axis() == Some(last));
    if !staged {
        for place in std::iter::once(sharded(last)).chain(cx.carried(VALUE, last)) {
            scores.add(&mut rows, [whole, whole, place], whole, place);
        }
    }
    if !values_differ {
        let stages = |op, width| {
            let meta = cx.operands.first().map(|query| &query.meta);
            let bytes = meta.map(|query| {
                TensorMeta::new(query.dtype.accumulator(), query.shape.with_extent(last, width)).bytes()
            });
            StageCollective { kind: StepKind::AllReduce(op), bytes: bytes.unwrap_or(0) }
        };
        let stages = [stages(ReduceOp::Max, 1), stages(ReduceOp::Sum, cx.extent(VALUE, last) + 1)];
        let places = scores.places(last, &[(KEY, tokens), (VALUE, tokens)]);
        for place in places.iter().take(count(places.clone())) {
            let own = place.on_axis(tokens);
            let mask = (cx.operands.len() > MASK).then_some(scores.mask(last, *place));
            rows.add_staged([whole, own, own].into_iter().chain(mask), [whole], stages);
        }
    }
    // Each part is rounded to the result's dtype: parts of narrow floats are summed first.
    let narrow = cx.operands.first().is_some_and(|query| query.meta.dtype != query.meta.dtype.accumulator());
    if !staged && !narrow {
        scores.add(&mut rows, [whole, whole, Place::PARTIAL], whole, Place::PARTIAL);
    }
    Ok(rows)
}

fn misfit(message: String, fix: impl Into<String>) -> Error {
    Error::new(ErrorKind::Shape, message).with_fix(fix)
}

fn shape(
    query: &TensorMeta,
    key: &TensorMeta,
    value: &TensorMeta,
    mask: Option<&TensorMeta>,
    _causal: bool,
    scale: Option<f64>,
) -> Result<TensorMeta> {
    for (name, meta) in [("query", query), ("key", key), ("value", value)] {
        check::float(name, meta)?;
        check::same_dtype(("query", query), (name, meta))?;
        if meta.shape.len() < 2 || meta.shape.len() != query.shape.len() {
            return Err(misfit(
                format!(
                    "{name} {} does not have the axes of query {}: [batch.., heads, tokens, components], at least the \
                     last two, as many in all three",
                    meta.shape, query.shape
                ),
                format!("reshape(&{name}, ..) to as many axes as the query has"),
            ));
        }
    }
    let tokens = query.shape.len() - 2;
    let (heads, last) = (tokens.saturating_sub(1), tokens + 1);
    let differ = |axis: usize, a: &TensorMeta, b: &TensorMeta| a.shape.extent(axis) != b.shape.extent(axis);
    if let Some(axis) = (0..heads).find(|axis| differ(*axis, query, key)) {
        return Err(misfit(
            format!("query {} and key {} differ on batch axis {axis}", query.shape, key.shape),
            "give key and value the batch axes of the query",
        ));
    }
    if let Some(axis) = (0..last).find(|axis| differ(*axis, key, value)) {
        return Err(misfit(
            format!(
                "key {} and value {} differ on axis {axis}; only their last axes may",
                key.shape, value.shape
            ),
            "give every key one value",
        ));
    }
    if differ(last, query, key) {
        return Err(misfit(
            format!(
                "query {} and key {} differ on the last axis, along which they are multiplied",
                query.shape, key.shape
            ),
            "project both to as many components",
        ));
    }
    let (of_query, of_key) = (query.shape.extent(heads), key.shape.extent(heads));
    let multiple = of_query.checked_rem(of_key).map_or(of_query == 0, |rest| rest == 0);
    if tokens > 0 && !multiple {
        return Err(misfit(
            format!(
                "query {} has {of_query} heads on axis {heads}, no multiple of the {of_key} of key {}",
                query.shape, key.shape
            ),
            format!("give key and value a number of heads that divides {of_query}"),
        ));
    }
    if let Some(mask) = mask {
        let mut scores = query.shape.clone();
        if let Some(slot) = scores.get_mut(last) {
            *slot = key.shape.extent(tokens);
        }
        if mask.dtype != DType::Bool && mask.dtype != query.dtype {
            return Err(Error::new(
                ErrorKind::DType,
                format!(
                    "mask is {}: a mask is bool, or {} as the query to be added",
                    mask.dtype, query.dtype
                ),
            )
            .with_fix("make it of truth values: Tensor::from_slice::<bool>(..)"));
        }
        if broadcast(&scores, &mask.shape).is_none_or(|all| all != scores) {
            return Err(misfit(
                format!(
                    "mask {} does not broadcast to {scores}, the shape of the scores: aligned at the last axis, its \
                     extents must be equal or 1",
                    mask.shape
                ),
                "reshape(&mask, ..) so that its last two axes are those of the queries and the keys",
            ));
        }
    }
    if let Some(scale) = scale.filter(|scale| !scale.is_finite()) {
        return Err(Error::new(ErrorKind::Argument, format!("scale must be a finite number, got {scale}"))
            .with_fix("pass None for 1 / sqrt(components)"));
    }
    Ok(TensorMeta::new(query.dtype, query.shape.with_extent(last, value.shape.extent(last))))
}

fn cases(cases: &mut Cases) {
    // query, key, value, and the mask with its dtype; without axes there is none.
    type Line<'a> = (&'a [usize], &'a [usize], &'a [usize], &'a [usize], DType, bool);
    let lines: [Line<'_>; 9] = [
        (&[2, 3, 5, 2], &[2, 3, 4, 2], &[2, 3, 4, 3], &[], DType::Bool, false),
        (&[2, 2, 5, 2], &[2, 2, 5, 2], &[2, 2, 5, 3], &[2, 1, 1, 5], DType::Bool, false),
        (&[5, 3, 2], &[5, 3, 2], &[5, 3, 2], &[], DType::Bool, true),
        (&[6, 5, 2], &[3, 6, 2], &[3, 6, 2], &[6, 5, 6], DType::F32, false),
        (&[4, 3, 2], &[1, 5, 2], &[1, 5, 2], &[4, 1, 5], DType::F32, true),
        (&[4, 3, 2], &[2, 5, 2], &[2, 5, 2], &[], DType::Bool, true),
        (&[5, 3], &[4, 3], &[4, 2], &[5, 4], DType::F32, false),
        (&[1, 1, 1, 2], &[1, 1, 3, 2], &[1, 1, 3, 2], &[], DType::Bool, false),
        (&[2, 3, 2], &[2, 0, 2], &[2, 0, 2], &[], DType::Bool, false),
    ];
    for (query, key, value, mask, dtype, causal) in lines {
        let one = |shape: &[usize]| vec![CaseOperand::new(DType::F32, shape)];
        let mask = if mask.is_empty() { vec![] } else { vec![CaseOperand::new(dtype, mask)] };
        let scale = if causal { Some(0.25) } else { None };
        cases.add_grouped(
            [one(query), one(key), one(value), mask],
            scaled_dot_product_attention { causal, scale },
        );
    }
    for dtype in kin(DType::F32) {
        let one = |shape: &[usize]| vec![CaseOperand::new(*dtype, shape)];
        cases.add_grouped(
            [one(&[2, 3, 4]), one(&[2, 5, 4]), one(&[2, 5, 3]), one(&[3, 5])],
            scaled_dot_product_attention { causal: true, scale: None },
        );
    }
}

/// Attention on one device, whose queries and keys may begin anywhere in the whole.
fn attend(
    cx: &mut KernelCx<'_>,
    [query, key, value]: [&LocalArray; 3],
    mask: Option<&LocalArray>,
    (causal, scale): (bool, Option<f64>),
    parts: bool,
) -> Result<LocalArray> {
    let tokens = query.shape().len().saturating_sub(2);
    let start = |operand: usize| -> Result<i64> {
        let region = cx.operand_region(operand)?;
        let first = region.get(tokens).and_then(|ranges| ranges.first());
        Ok(first.map_or(0, |range| range.start as i64))
    };
    let causal = if causal { Some(start(QUERY)? - start(KEY)?) } else { None };
    let width = query.shape().last().copied().unwrap_or(1).max(1);
    let scale = scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
    let op = FusedOp::Attention(Attention { scale, causal, parts });
    let inputs = [query, key, value];
    match mask {
        None => cx.fused(op, &inputs),
        Some(mask) => cx.fused(op, &[query, key, value, mask]),
    }
}

fn stages(
    cx: &mut StageCx<'_>,
    query: &Shards,
    key: &Shards,
    value: &Shards,
    mask: Option<&Shards>,
    causal: bool,
    scale: Option<f64>,
) -> Result<Shards> {
    let shape = cx.operand(QUERY)?.shape();
    let last = shape.axis(-1)?;
    let width = cx.operand(VALUE)?.shape().extent(last);
    let like = |width: usize| -> Shape { shape.with_extent(last, width) };
    let dtype = cx.operand(QUERY)?.dtype();
    let wide = dtype.accumulator();
    let number = |value: f64| Expr::constant(value, wide);
    let input = Expr::input;

    // Sums of weights relative to the greatest score of this device's keys, and that score.
    let parts = cx.each(|k, i| {
        let mask = mask.map(|mask| shard(mask, i)).transpose()?;
        attend(k, [shard(query, i)?, shard(key, i)?, shard(value, i)?], mask, (causal, scale), true)
    })?;
    let own = cx.each(|_, i| Ok(shard(&parts, i)?.slice(last, width + 1, 1)))?;
    let greatest = cx.all_reduce(ReduceOp::Max, QUERY, &like(1), own.clone())?;
    // Equal ones may both be infinite: no device has a key that counts.
    let power = Expr::unary(UnaryOp::Exp, Expr::binary(BinaryOp::Sub, input(1), input(2)));
    let same = Expr::binary(BinaryOp::Eq, input(1), input(2));
    let relative = Expr::binary(BinaryOp::Mul, input(0), Expr::select(same, number(1.0), power));
    let sums = cx.each(|k, i| {
        let sums = shard(&parts, i)?.slice(last, 0, width + 1);
        k.map(&relative, &[&sums, shard(&own, i)?, shard(&greatest, i)?])
    })?;
    let sums = cx.all_reduce(ReduceOp::Sum, QUERY, &like(width + 1), sums)?;
    let empty = Expr::binary(BinaryOp::Eq, input(1), number(0.0));
    let mean = Expr::binary(BinaryOp::Div, input(0), input(1));
    let mean = Expr::select(empty, number(0.0), mean);
    let mean = if dtype == wide { mean } else { Expr::cast(dtype, mean) };
    cx.each(|k, i| {
        let sums = shard(&sums, i)?;
        k.map(&mean, &[&sums.slice(last, 0, width), &sums.slice(last, width, 1)])
    })
}

/// `softmax(scale * query keyᵀ + mask) value` for every head: each query's mean of the values, weighted by how well their
/// keys fit it (Vaswani et al., "Attention Is All You Need", 2017), with the semantics of PyTorch's function of this name.
/// The scores are never in memory as a whole: 64 queries at a time where a backend has no kernel of its own.
///
/// Shapes: query `[b.., hq, l, e]`, key `[b.., hk, s, e]`, value `[b.., hk, s, ev]`; the result is `[b.., hq, l, ev]`.
/// `hq` is a multiple of `hk`: neighbouring query heads share a key head (grouped heads). Three axes are heads or a batch,
/// two are one head.
///
/// * `mask` broadcasts to `[b.., hq, l, s]`: bool, true where a query may attend to a key; or of the query's dtype, added
///   to the scores.
/// * `causal`: query `i` attends only to keys `j <= i`, counted from the first of each, also where `l` and `s` differ. Both
///   may be given: then both count.
/// * `scale` is `1 / sqrt(e)` unless given.
///
/// A query that may attend to no key gets zeros. Values of keys that are masked must be finite: whether they are
/// multiplied by 0 or left out is not said.
///
/// Splits of batch axes, heads and queries are kept, without any communication. Grouped heads stay split where every
/// device has the query heads of its key heads, or all share one key head. If the keys are split, each device attends to
/// its own, and two all_reduces combine what they give: no device ever holds all keys.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let heads = DeviceMapping::new(&mesh, [Sharded(0)])?;
/// // Two heads of two tokens.
/// let x = Tensor::from_slice(&[0.0_f32; 8], [2, 2, 2], &heads)?;
/// let value = Tensor::from_slice(&[1.0_f32, 3.0, 5.0, 9.0], [2, 2, 1], &heads)?;
/// let y = scaled_dot_product_attention(&x, &x, &value, None, true, None)?;
/// assert_eq!(y.mapping(), &heads);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 5.0, 7.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not fit, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for anything but floating-point numbers of one dtype, or another mask, [`ErrorKind::Argument`](crate::ErrorKind::Argument)
/// for a scale that is not finite, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn scaled_dot_product_attention(
    cx: &mut KernelCx,
    query: &LocalArray,
    key: &LocalArray,
    value: &LocalArray,
    mask: Option<&LocalArray>,
    causal: bool,
    scale: Option<f64>,
) -> Result<LocalArray> {
    attend(cx, [query, key, value], mask, (causal, scale), false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    fn args(causal: bool) -> scaled_dot_product_attention {
        scaled_dot_product_attention { causal, scale: None }
    }

    #[test]
    fn every_axis_but_the_components_of_a_score_may_be_split() {
        let operands = [ask::f32s(&[2, 4, 6, 3]), ask::f32s(&[2, 4, 5, 3]), ask::f32s(&[2, 4, 5, 7])];
        let rows = [
            "R R R -> R",
            "S0 S0 S0 -> S0",
            "S1 S1 S1 -> S1",
            "S2 R R -> S2",
            "R R S3 -> S3",
            "R S2 S2 -> R +all_reduce of 192 +all_reduce of 1536",
            "R R P -> P",
        ];
        ask::check::<scaled_dot_product_attention>(&args(true), &[2], &operands, &rows);
    }

    #[test]
    fn a_mask_is_split_where_it_does_not_broadcast() {
        let mask: ask::Placed<'_> = (DType::Bool, &[4, 1, 5], &[Place::Replicated]);
        let operands = [ask::f32s(&[2, 4, 6, 3]), ask::f32s(&[2, 4, 5, 3]), ask::f32s(&[2, 4, 5, 7]), mask];
        let rows = [
            "R R R R -> R",
            "S0 S0 S0 R -> S0",
            "S1 S1 S1 S0 -> S1",
            "S2 R R R -> S2",
            "R R S3 R -> S3",
            "R S2 S2 S2 -> R +all_reduce of 192 +all_reduce of 1536",
            "R R P R -> P",
        ];
        ask::check::<scaled_dot_product_attention>(&args(false), &[2], &operands, &rows);
    }

    /// The rows that split the heads, axis 0, of 3-dimensional operands.
    #[track_caller]
    fn heads(queries: (usize, Place), keys: (usize, Place), ways: usize, want: &[&str]) {
        let (query, key) = ([queries.0, 3, 2], [keys.0, 3, 2]);
        let (at, key_at) = ([queries.1], [keys.1]);
        let operands =
            [(DType::F32, &query[..], &at[..]), (DType::F32, &key, &key_at), (DType::F32, &key, &key_at)];
        let rows = ask::rows::<scaled_dot_product_attention>(&args(true), &[ways], &operands).unwrap();
        let got: Vec<&String> =
            rows.iter().filter(|row| row.contains("S0") || row.contains("(0, ")).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn grouped_heads_stay_with_their_keys() {
        let whole = Place::Replicated;
        heads((6, whole), (3, whole), 3, &["S0 S0 S0 -> S0"]);
        // 3 and 3 query heads, but 2 and 1 key heads.
        heads((6, whole), (3, whole), 2, &[]);
        heads((5, whole), (5, whole), 2, &["S0 S0 S0 -> S0"]);
        heads((4, whole), (1, whole), 3, &["S0 R R -> S0"]);
        let sizes = |sizes: &[usize]| Ragged::place(0, sizes);
        heads((6, sizes(&[4, 2])), (3, whole), 2, &["Ragged(0, [4, 2]) S0 S0 -> Ragged(0, [4, 2])"]);
        heads((6, sizes(&[5, 1])), (3, whole), 2, &[]);
        heads(
            (6, whole),
            (3, sizes(&[1, 2])),
            2,
            &["Ragged(0, [2, 4]) Ragged(0, [1, 2]) Ragged(0, [1, 2]) -> Ragged(0, [2, 4])"],
        );
    }
}
