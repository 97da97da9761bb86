//! Rules in factor notation, the einsum-like form of `#[sharding_rule]`.

use super::{Rows, RuleCx};
use crate::{Metas, ReduceOp, Result, TensorMeta};

/// One term of an operand or result in factor notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// `...`: the leading axes that broadcast, aligned at the last of them.
    Dots,
    /// A factor by its number in [`Factors::names`].
    Factor(u8),
}

/// One alternative: the axes of every operand and result, for the numbers of tensor axes that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    /// The factors' names, in the order in which their rows are tried.
    pub names: &'static [&'static str],
    /// The terms of each operand.
    pub operands: &'static [&'static [Term]],
    /// The terms of each result.
    pub results: &'static [&'static [Term]],
    /// Factors that results lack, with how their parts combine.
    pub reduced: &'static [(u8, ReduceOp)],
    /// Factors that are never split.
    pub whole: &'static [u8],
}

/// In which operands the op is linear, so that Partial passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linear {
    /// In none.
    No,
    /// In each one with the others fixed: matmul, mul.
    Each,
    /// In all of them together: add, concat.
    Together,
    /// In the operand of that number.
    Operand(u8),
}

/// A rule in factor notation: shape, rows and cases follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactorRule {
    /// Tried in order; the first that fits the operands' numbers of tensor axes counts.
    pub alternatives: &'static [Factors],
    /// Partial pass-through.
    pub linear: &'static [Linear],
}

impl FactorRule {
    /// The shape function: extents of one factor must agree, `...` axes broadcast, dtypes are equal.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) or [`ErrorKind::DType`](crate::ErrorKind::DType), naming factor,
    /// operands and extents.
    pub fn shape(&self, _names: &[&str], _operands: &[TensorMeta]) -> Result<Metas> {
        todo!()
    }
    /// The rows.
    ///
    /// # Errors
    /// If no alternative fits.
    pub fn rows(&self, _cx: &RuleCx<'_>, _rows: &mut Rows) -> Result<()> {
        todo!()
    }
}
