//! Index maps: results whose every element is a copy of one element of an operand.

use crate::{Scalar, Shape};
use smallvec::SmallVec;
use std::ops::Range;

/// A box of the result and where its elements come from.
///
/// The element at index `i` of the box is number `offset + Σ strides[a] * (i[a] - into[a].start)` of the operand,
/// counted in row-major order of the operand's shape (whatever its memory strides are). Steps, flips, repeats
/// (stride 0), permutations and reshapes are all of this form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Which operand.
    pub operand: usize,
    /// The box of the result, one range per result axis.
    pub into: SmallVec<[Range<usize>; 4]>,
    /// The row-major number of the operand's element that the box's first index reads.
    pub offset: isize,
    /// Row-major numbers of the operand per step on each result axis.
    pub strides: SmallVec<[isize; 4]>,
}

/// A result made of copied elements; indices outside all pieces hold `fill`.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexMap {
    /// The shape of the result.
    pub shape: Shape,
    /// Disjoint boxes of the result.
    pub pieces: Vec<Piece>,
    /// The value outside of them.
    pub fill: Scalar,
}

impl IndexMap {
    fn whole(shape: Shape, offset: isize, strides: SmallVec<[isize; 4]>) -> Self {
        let into = shape.iter().map(|n| 0..*n).collect();
        Self { shape, pieces: vec![Piece { operand: 0, into, offset, strides }], fill: Scalar::Int(0) }
    }

    /// The same elements in the same row-major order under another shape of as many elements.
    pub fn reshape(to: &Shape) -> Self {
        Self::whole(to.clone(), 0, to.strides())
    }

    /// Result axis `i` is operand axis `axes[i]`.
    pub fn permute(from: &Shape, axes: &[usize]) -> Self {
        let strides = from.strides();
        let shape = axes.iter().map(|axis| from.extent(*axis)).collect();
        Self::whole(shape, 0, axes.iter().map(|axis| strides.get(*axis).copied().unwrap_or(0)).collect())
    }

    /// Every `steps[a]`-th element of `starts[a]..` on each axis, `extents[a]` of them.
    pub fn slice(from: &Shape, starts: &[usize], steps: &[isize], extents: &[usize]) -> Self {
        let strides = from.strides();
        let offset = strides.iter().zip(starts).map(|(stride, start)| stride * *start as isize).sum();
        Self::whole(
            extents.into(),
            offset,
            strides.iter().zip(steps).map(|(stride, step)| stride * step).collect(),
        )
    }

    /// The operands one after the other on `axis`; `None` if they are none or of different shapes elsewhere.
    pub fn concat(from: &[Shape], axis: usize) -> Option<Self> {
        let first = from.first()?;
        let mut start = 0;
        let mut pieces = Vec::with_capacity(from.len());
        for (operand, shape) in from.iter().enumerate() {
            if shape.len() != first.len() || axis >= first.len() || shape.without(axis) != first.without(axis)
            {
                return None;
            }
            let mut into: SmallVec<[Range<usize>; 4]> = shape.iter().map(|n| 0..*n).collect();
            let end = start + shape.extent(axis);
            if let Some(range) = into.get_mut(axis) {
                *range = start..end;
            }
            start = end;
            pieces.push(Piece { operand, into, offset: 0, strides: shape.strides() });
        }
        Some(Self { shape: first.with_extent(axis, start), pieces, fill: Scalar::Int(0) })
    }
}
