//! The rows of a rule in factor notation.

use super::{FactorRule, Factors, Label, Linear, axis_of, lead};
use crate::placement::sharded;
use crate::rule::{AxisAssignment, Role, Rows, RuleCx};
use crate::{Error, ErrorKind, Place, Result};
use smallvec::SmallVec;

impl FactorRule {
    /// The rows, in the order that breaks ties: all Replicated; the axes of `...` from the first to the last; the
    /// factors in the order of [`Factors::names`] (the macro puts those of the results first, in their order, then the
    /// reduced ones: matmul gives batch, M, N, K); the Partial rows of [`Linear`].
    ///
    /// In the row of a factor, operands that have it are Sharded on its axis, others Replicated (in `...` also those
    /// whose extent is 1 where others' is not); a result that lacks it is Partial. A custom placement found on an
    /// operand's axis gives one more row that carries it to the others. Rows that would move a written operand are left
    /// out.
    ///
    /// # Errors
    /// [`ErrorKind::Sharding`] if no alternative fits the operands' numbers of axes.
    pub fn rows(&self, cx: &RuleCx<'_>, rows: &mut Rows) -> Result<()> {
        let ndims = || cx.operands.iter().map(|operand| operand.meta.shape.len());
        let Some(factors) = self.alternative(cx.groups, ndims) else {
            let ndims: Vec<_> = ndims().collect();
            let message = format!("the op has no rule for operands with {ndims:?} tensor axes");
            return Err(Error::new(ErrorKind::Sharding, message));
        };
        let partial = Place::PARTIAL;
        push(cx, rows, |_| Place::Replicated, cx.results.iter().map(|_| Place::Replicated));

        let leads = ndims().enumerate().filter_map(|(flat, ndim)| lead(factors.of(cx.groups, flat), ndim));
        for from_last in (0..leads.max().unwrap_or(0)).rev() {
            split(factors, cx, Label::Dots(from_last), rows);
        }
        for factor in (0_u8..).take(factors.names.len()).filter(|factor| !factors.whole.contains(factor)) {
            split(factors, cx, Label::Factor(factor), rows);
        }

        let results = || cx.results.iter().map(|_| partial);
        for linear in self.linear.iter().filter(|_| !cx.results.is_empty()) {
            let place = |is_partial: bool| if is_partial { partial } else { Place::Replicated };
            match *linear {
                Linear::No => {}
                Linear::Together => push(cx, rows, |_| partial, results()),
                Linear::Each => {
                    for one in 0..cx.operands.len() {
                        push(cx, rows, |flat| place(flat == one), results());
                    }
                }
                Linear::Operand(declared) => {
                    let range = cx.groups.range(usize::from(declared));
                    if !range.is_empty() {
                        push(cx, rows, |flat| place(range.contains(&flat)), results());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Adds the rows that split one label.
fn split(factors: &Factors, cx: &RuleCx<'_>, label: Label, rows: &mut Rows) {
    let own = |flat: usize| axis_of(factors.of(cx.groups, flat), cx.ndim(flat), label);
    let mut owns: SmallVec<[Option<usize>; 4]> = (0..cx.operands.len()).map(own).collect();
    let extent = |(flat, axis): (usize, &Option<usize>)| axis.map(|axis| cx.extent(flat, axis));
    let whole = owns.iter().enumerate().filter_map(extent).find(|extent| *extent != 1);
    for (flat, slot) in owns.iter_mut().enumerate() {
        // Broadcast: the one row or column is needed everywhere.
        if whole.is_some() && slot.is_some_and(|axis| cx.extent(flat, axis) == 1) {
            *slot = None;
        }
    }
    // Where each result has the label, or how its parts combine.
    let mut results: SmallVec<[(Option<usize>, Place); 2]> = SmallVec::new();
    for (terms, meta) in factors.results.iter().zip(cx.results) {
        let axis = axis_of(terms, meta.shape.len(), label);
        let reduced = match label {
            Label::Factor(factor) => factors.reduce_op(factor),
            Label::Dots(_) => None,
        };
        match (axis, reduced) {
            (Some(axis), _) => results.push((Some(axis), sharded(axis))),
            (None, Some(op)) => results.push((None, Place::Partial(op))),
            // The result has parts of nothing: no row.
            (None, None) => return,
        }
    }
    let carried = owns.iter().enumerate().filter_map(|(flat, own)| cx.carried(flat, (*own)?));
    for place in std::iter::once(sharded(0)).chain(carried) {
        push(
            cx,
            rows,
            |flat| owns.get(flat).copied().flatten().map_or(Place::Replicated, |axis| place.on_axis(axis)),
            results.iter().map(|(axis, without)| axis.map_or(*without, |axis| place.on_axis(axis))),
        );
    }
}

/// Adds a row unless it would move a written operand.
fn push(
    cx: &RuleCx<'_>,
    rows: &mut Rows,
    operand: impl Fn(usize) -> Place,
    results: impl Iterator<Item = Place>,
) {
    let moves = |(flat, o): (usize, &crate::rule::RuleOperand)| {
        o.role == Role::Written && operand(flat) != cx.place(flat)
    };
    if !cx.operands.iter().enumerate().any(moves) {
        rows.push(AxisAssignment::new((0..cx.operands.len()).map(&operand), results));
    }
}
