//! The closed set of kernels that a backend provides.

use super::{Expr, IndexMap};
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
    /// `x weight^T + bias`: a linear layer. Inputs: x `[.., m, k]`, weight `[n, k]` and bias `[n]`, all of one dtype, to
    /// `[.., m, n]`. Accumulates as [`Primitive::Dot`].
    Linear,
}

impl FusedOp {
    /// The local shape of the result for inputs of these shapes.
    pub fn result_shape(&self, inputs: &[&Shape]) -> Shape {
        let first = inputs.first().copied().cloned().unwrap_or_default();
        match (self, inputs) {
            (FusedOp::Linear, [_, weight, ..]) if !first.is_empty() => {
                first.with_extent(first.len() - 1, weight.extent(0))
            }
            _ => first,
        }
    }
}
