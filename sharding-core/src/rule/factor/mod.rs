//! Rules in factor notation, the einsum-like form of `#[sharding_rule]`.
//!
//! A factor is a tensor axis under one name in all operands and results that have it. Splitting it everywhere at once
//! is a row; a factor that a result lacks, and is reduced, leaves that result Partial. Shape function and cases follow
//! from the same text.

mod cases;
mod rows;
mod shape;
#[cfg(test)]
mod tests;

use crate::ReduceOp;
use crate::op::Groups;
use std::fmt;

/// One term of an operand or result in factor notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// `...`: any number of axes that broadcast, aligned at the last of them; once per operand.
    Dots,
    /// A factor by its number in [`Factors::names`].
    Factor(u8),
}

/// One alternative: the axes of every operand and result, for the numbers of tensor axes that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    /// The factors' names, in the order in which their rows are tried.
    pub names: &'static [&'static str],
    /// The terms of each declared operand; of every tensor of a slice.
    pub operands: &'static [&'static [Term]],
    /// The terms of each result.
    pub results: &'static [&'static [Term]],
    /// Factors that results lack, with how their parts combine.
    pub reduced: &'static [(u8, ReduceOp)],
    /// Factors that are never split.
    pub whole: &'static [u8],
}

/// In which operands the op is linear, so that `Partial(Sum)` passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linear {
    /// In none.
    No,
    /// In each one with the others fixed: matmul, mul.
    Each,
    /// In all of them together: add, concat.
    Together,
    /// In the declared operand of that number.
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

/// A tensor axis as the notation sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    /// An axis of `...`, counted from the last of them: 0 is the last one, whatever the number of axes in front.
    Dots(usize),
    /// A named one.
    Factor(u8),
}

/// How many axes of a tensor `...` stands for; `None` if the terms do not fit the number of axes.
fn lead(terms: &[Term], ndim: usize) -> Option<usize> {
    if terms.contains(&Term::Dots) {
        (ndim + 1).checked_sub(terms.len())
    } else {
        (ndim == terms.len()).then_some(0)
    }
}

/// The axis of a tensor that bears a label.
fn axis_of(terms: &[Term], ndim: usize, label: Label) -> Option<usize> {
    let lead = lead(terms, ndim)?;
    let dots = terms.iter().position(|term| *term == Term::Dots);
    match label {
        Label::Dots(from_last) => Some(dots? + lead.checked_sub(from_last + 1)?),
        Label::Factor(factor) => {
            let at = terms.iter().position(|term| *term == Term::Factor(factor))?;
            // Behind `...`, one term has become `lead` axes.
            Some(if dots.is_some_and(|dots| dots < at) { at + lead - 1 } else { at })
        }
    }
}

impl Factors {
    /// The terms of a flat operand.
    fn of(&self, groups: Groups<'_>, flat: usize) -> &'static [Term] {
        self.operands.get(groups.locate(flat).0).copied().unwrap_or(&[])
    }

    /// Whether operands with these numbers of axes have this form.
    fn fits(&self, groups: Groups<'_>, ndims: &mut dyn Iterator<Item = usize>) -> bool {
        ndims.enumerate().all(|(flat, ndim)| lead(self.of(groups, flat), ndim).is_some())
    }

    /// How parts of a factor combine in a result that lacks it.
    fn reduce_op(&self, factor: u8) -> Option<ReduceOp> {
        self.reduced.iter().find(|(reduced, _)| *reduced == factor).map(|(_, op)| *op)
    }

    fn name(&self, factor: u8) -> &'static str {
        self.names.get(usize::from(factor)).copied().unwrap_or("?")
    }
}

impl FactorRule {
    /// The alternative for operands with these numbers of axes.
    fn alternative<I: Iterator<Item = usize>>(
        &self,
        groups: Groups<'_>,
        ndims: impl Fn() -> I,
    ) -> Option<&'static Factors> {
        self.alternatives.iter().find(|factors| factors.fits(groups, &mut ndims()))
    }
}

/// The notation it was written in: `... m k, ... k n -> ... m n`.
impl fmt::Display for Factors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, lists: &[&[Term]]| {
            for (i, terms) in lists.iter().enumerate() {
                f.write_str(if i == 0 { "" } else { "," })?;
                for (j, term) in terms.iter().enumerate() {
                    f.write_str(if i + j == 0 { "" } else { " " })?;
                    match term {
                        Term::Dots => f.write_str("...")?,
                        Term::Factor(factor) => f.write_str(self.name(*factor))?,
                    }
                }
            }
            Ok(())
        };
        list(f, self.operands)?;
        f.write_str(" -> ")?;
        list(f, self.results)
    }
}
