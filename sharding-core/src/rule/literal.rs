//! Rows written down literally: `rows = [(S(0), R) => S(0)]` of `#[sharding_rule]`.

use super::{AxisAssignment, Role, Rows, RuleCx, replicated_rows};
use crate::placement::sharded;
use crate::{Place, ReduceOp};

/// A placement in a literal row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralPlace {
    /// `R`.
    Replicated,
    /// `S(n)`: a tensor axis; a negative one counts from the back.
    Sharded(i8),
    /// `P`, `P(max)`.
    Partial(ReduceOp),
    /// `U`.
    Unknown,
}

impl LiteralPlace {
    /// The placement on a tensor of so many axes, if it has the axis.
    fn on(self, ndim: usize) -> Option<Place> {
        Some(match self {
            LiteralPlace::Replicated => Place::Replicated,
            LiteralPlace::Partial(op) => Place::Partial(op),
            LiteralPlace::Unknown => Place::Unknown,
            LiteralPlace::Sharded(axis) => {
                let axis = isize::from(axis);
                let axis =
                    if axis < 0 { ndim.checked_sub(axis.unsigned_abs())? } else { axis.unsigned_abs() };
                (axis < ndim).then(|| sharded(axis))?
            }
        })
    }
}

/// A literal row: a placement for every declared operand (for each tensor of a slice, none for an absent optional
/// one) and for every result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiteralRow {
    /// Of the declared operands.
    pub operands: &'static [LiteralPlace],
    /// Of the results; they are repeated where a call has more results than that.
    pub results: &'static [LiteralPlace],
}

/// Adds literal rows, the all-Replicated one before them unless an operand is written. A row that shards an axis
/// which a tensor at hand does not have is left out, and so is one that would move a written operand.
pub fn literal_rows(cx: &RuleCx<'_>, list: &[LiteralRow], rows: &mut Rows) {
    let written = |i: usize| cx.operands.get(i).is_some_and(|o| o.role == Role::Written);
    if !(0..cx.operands.len()).any(written) {
        replicated_rows(cx, rows);
    }
    for literal in list {
        let operand = |flat: usize| {
            literal.operands.get(cx.groups.locate(flat).0).and_then(|place| place.on(cx.ndim(flat)))
        };
        let result = |(place, meta): (&LiteralPlace, &crate::TensorMeta)| place.on(meta.shape.len());
        let operands = (0..cx.operands.len()).map(operand).collect::<Option<_>>();
        let results = literal.results.iter().cycle().zip(cx.results).map(result).collect::<Option<_>>();
        let (Some(operands), Some(results)) = (operands, results) else { continue };
        let row = AxisAssignment { operands, results, stages: smallvec::SmallVec::new(), maps: None };
        if row.operands.iter().enumerate().all(|(i, place)| !written(i) || *place == cx.place(i)) {
            rows.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!(LiteralPlace::Sharded(1).on(2), Some(Place::Sharded(1)));
        assert_eq!(LiteralPlace::Sharded(-1).on(2), Some(Place::Sharded(1)));
        assert_eq!(LiteralPlace::Sharded(2).on(2), None);
        assert_eq!(LiteralPlace::Sharded(-3).on(2), None);
        assert_eq!(LiteralPlace::Replicated.on(0), Some(Place::Replicated));
    }
}
