//! The closed set of kernels that a backend provides.

use super::{Expr, IndexMap, LocalMeta, Random};
use crate::{DType, ReduceOp, Shape};
use smallvec::SmallVec;

/// A kernel that a backend provides; everything else is written on these.
///
/// Shapes below are local shapes. Inputs may have any strides; results are contiguous. A backend may assume that
/// shapes and dtypes agree as stated here: the caller has validated them.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Primitive {
    /// Elementwise over inputs that broadcast (aligned at the last axis) to the result's shape. Without inputs it
    /// fills. The result's dtype is the expression's. Integers wrap after each step; f16 and bf16 are computed in f32 (or
    /// wider) and rounded once, where the expression ends, and where it casts to them.
    Map(Expr),
    /// Combines the elements of some axes; these stay with extent 1. Floats are accumulated in f32 or wider, in an
    /// order that depends on the shape only, and rounded once; integers wrap in their dtype (they are not widened). An empty
    /// axis gives the op's identity.
    Reduce(Reduce),
    /// Batched matrix product: `[.., m, k]` by `[.., k, n]` to `[.., m, n]`; leading axes broadcast. All
    /// numbers: f16, bf16 and f32 accumulate in f32 or wider, f64 in f64, integers wrap. `k = 0` gives zeros.
    Dot,
    /// Rows by index; see [`Gather`]. Inputs: the table, then i64 indices.
    Gather(Gather),
    /// Copies; see [`IndexMap`]. Inputs: its operands, all of the result's dtype.
    Copy(IndexMap),
    /// `start + step * (first + index along axis)`, without inputs, for all numbers. Integers wrap; fractions
    /// are cut off.
    Iota(Iota),
    /// Elements of a random whole, without inputs; see [`Random`].
    Random(Random),
    /// A kernel that backends may fuse; its lowering on the others defines it.
    Fused(FusedOp),
}

/// See [`Primitive::Reduce`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// How elements combine.
    pub op: ReduceOp,
    /// The axes, ascending.
    pub axes: SmallVec<[usize; 4]>,
}

/// `result[a.., i.., b..] = table[a.., indices[i..] - base, b..]`, where `a..` are the table's axes before `axis`
/// and `b..` those after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// The table's axis that is indexed.
    pub axis: usize,
    /// What is taken from every index first: the start of the local rows.
    pub base: i64,
    /// The global extent of the axis. An index outside `0..bound` is an error that names it.
    pub bound: i64,
}

/// See [`Primitive::Iota`].
#[derive(Clone, Debug, PartialEq)]
pub struct Iota {
    /// The axis along which values grow.
    pub axis: usize,
    /// The number of the first element: those of a shard are counted in the whole, so that each is the same wherever
    /// the axis is cut.
    pub first: usize,
    /// The value of element 0.
    pub start: f64,
    /// The difference of neighbours.
    pub step: f64,
    /// The result's dtype.
    pub dtype: DType,
}

/// Kernels that a backend may run in one pass.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum FusedOp {
    /// `exp(x - max(x)) / sum(exp(x - max(x)))` along an axis.
    Softmax {
        /// The axis that sums to 1.
        axis: usize,
    },
    /// `(x - mean) / sqrt(var + eps) * gamma + beta` over the last axis, with the biased variance. Inputs: x,
    /// gamma, beta, the latter two of the last axis' extent.
    LayerNorm {
        /// Added to the variance.
        eps: f64,
    },
    /// `x / sqrt(mean(x^2) + eps) * weight` over the last axis. Inputs: x, weight, the latter of the last axis' extent.
    /// The squares are summed in f32 or wider.
    RmsNorm {
        /// Added to the mean of the squares.
        eps: f64,
    },
    /// `x weight^T + bias`: a linear layer. Inputs: x `[.., m, k]`, weight `[n, k]` and maybe a bias `[n]`, all of one dtype,
    /// to `[.., m, n]`. Accumulates as [`Primitive::Dot`].
    Linear,
    /// Scaled dot product attention; see [`Attention`]. Inputs: query, key, value, and maybe a mask.
    Attention(Attention),
}

impl FusedOp {
    /// dtype and shape of the result; `None` where the inputs do not fit each other.
    pub fn result(&self, inputs: &[&LocalMeta]) -> Option<(DType, Shape)> {
        match self {
            FusedOp::Attention(attention) => {
                let shape = attention.extents(inputs)?.result(attention.parts);
                let dtype = inputs.first()?.dtype;
                Some((if attention.parts { dtype.accumulator() } else { dtype }, shape))
            }
            FusedOp::Linear => {
                let ([x, weight] | [x, weight, _]) = inputs else { return None };
                Some((x.dtype, x.shape.with_extent(x.shape.len().checked_sub(1)?, weight.shape.extent(0))))
            }
            _ => inputs.first().map(|x| (x.dtype, x.shape.clone())),
        }
    }
}

/// `softmax(scale * query key^T + mask) value`, for each head of each batch entry.
///
/// Shapes: query `[b.., hq, l, e]`, key `[b.., hk, s, e]`, value `[b.., hk, s, ev]`; the result is `[b.., hq, l, ev]`.
/// `hq` is a multiple of `hk`: query head `i` attends to key head `i / (hq / hk)`. Without a heads axis (two axes in
/// all) there is one head. The mask broadcasts to `[b.., hq, l, s]`: bool, true where a query may attend to a key; or of
/// the query's dtype, added to the scores. A query that may attend to no key gives zeros.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// What scores are multiplied by.
    pub scale: f64,
    /// Query `i` attends only to keys `j <= i + offset`.
    pub causal: Option<i64>,
    /// Give `[b.., hq, l, ev + 2]` instead: the sum of `exp(score - m) * value` over the keys, with m the greatest
    /// score, then the sum of `exp(score - m)`, then m, in the dtype in which sums are kept ([`DType::accumulator`]).
    /// What several devices have of their keys is combined from it.
    pub parts: bool,
}

/// The sizes of one [`Attention`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionExtents {
    /// `b..`.
    pub batch: SmallVec<[usize; 4]>,
    /// Heads of the query; `None` without a heads axis.
    pub heads: Option<usize>,
    /// Heads of key and value; 1 without a heads axis.
    pub key_heads: usize,
    /// Query heads for each key head.
    pub group: usize,
    /// Queries, `l`.
    pub queries: usize,
    /// Keys, `s`.
    pub keys: usize,
    /// Components of a query and of a key, `e`.
    pub width: usize,
    /// Components of a value, `ev`.
    pub value_width: usize,
}

impl Attention {
    /// The sizes of a call on these inputs; `None` where they do not fit each other.
    pub fn extents(&self, inputs: &[&LocalMeta]) -> Option<AttentionExtents> {
        let (query, key, value, mask) = match inputs {
            [query, key, value] => (query, key, value, None),
            [query, key, value, mask] => (query, key, value, Some(mask)),
            _ => return None,
        };
        let axes = query.shape.len();
        let lead = axes.checked_sub(2)?;
        let one_dtype = [key, value].iter().all(|x| x.dtype == query.dtype && x.shape.len() == axes);
        let (last, heads) = (lead + 1, lead.checked_sub(1));
        let (batch, key_heads) = match heads {
            Some(axis) => (axis, key.shape.extent(axis)),
            None => (0, 1),
        };
        let query_heads = heads.map(|axis| query.shape.extent(axis));
        let group = query_heads.unwrap_or(1).checked_div(key_heads).unwrap_or(0);
        let fit = one_dtype
            && query.shape.iter().take(batch).eq(key.shape.iter().take(batch))
            && key.shape.iter().take(lead + 1).eq(value.shape.iter().take(lead + 1))
            && query.shape.extent(last) == key.shape.extent(last)
            && group * key_heads == query_heads.unwrap_or(1);
        let extents = AttentionExtents {
            batch: query.shape.iter().take(batch).copied().collect(),
            heads: query_heads,
            key_heads,
            group,
            queries: query.shape.extent(lead),
            keys: key.shape.extent(lead),
            width: query.shape.extent(last),
            value_width: value.shape.extent(last),
        };
        let fits_mask = mask.is_none_or(|mask| {
            (mask.dtype == DType::Bool || mask.dtype == query.dtype)
                && crate::broadcast(&extents.scores(), &mask.shape).is_some_and(|all| all == extents.scores())
        });
        (fit && fits_mask).then_some(extents)
    }
}

impl AttentionExtents {
    fn with_last(&self, last: [usize; 2]) -> Shape {
        self.batch.iter().copied().chain(self.heads).chain(last).collect()
    }
    /// `[b.., hq, l, s]`.
    pub fn scores(&self) -> Shape {
        self.with_last([self.queries, self.keys])
    }
    /// `[b.., hq, l, ev]`, or with two more at the last axis.
    pub fn result(&self, parts: bool) -> Shape {
        self.with_last([self.queries, self.value_width + if parts { 2 } else { 0 }])
    }
}
