//! What the elementwise ops share: rows of functions of one operand and of two, and cases that broadcast.

use sharding_core::op::{CaseOperand, Cases, Fill, OpArgs};
use sharding_core::rule::{Rows, RuleCx, elementwise_rows, replicated_rows};
use sharding_core::{DType, Place, Result};

/// Rows of any elementwise op: all Replicated, then each axis of the result. No Partial: parts cannot be mapped one by
/// one by a function that is not linear.
pub(crate) fn map_rows(cx: &RuleCx<'_>) -> Result<Rows> {
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    elementwise_rows(cx, &mut rows);
    Ok(rows)
}

/// [`map_rows`], and Partial through where only the given operands are Partial and the others Replicated.
pub(crate) fn linear_rows(cx: &RuleCx<'_>, partial: &[&[usize]]) -> Result<Rows> {
    let mut rows = map_rows(cx)?;
    for parts in partial {
        let place = |i| if parts.contains(&i) { Place::PARTIAL } else { Place::Replicated };
        rows.add((0..cx.operands.len()).map(place), [Place::PARTIAL]);
    }
    Ok(rows)
}

/// One operand: plain, uneven, with extents of 1 and 0, without axes.
pub(crate) fn unary_cases(cases: &mut Cases, dtype: DType) {
    for shape in [&[7, 5][..], &[2, 3, 4], &[1, 3], &[0, 4], &[6], &[]] {
        cases.add([CaseOperand::new(dtype, shape)], ());
    }
}

/// Two operands that broadcast on either side, are equal, have extents of 1 and 0, or no axes.
pub(crate) fn binary_cases(cases: &mut Cases, dtype: DType, rhs_fill: Fill, args: impl OpArgs + Clone) {
    for (lhs, rhs) in [
        (&[7, 5][..], &[7, 5][..]),
        (&[4, 1, 6], &[3, 6]),
        (&[6], &[5, 6]),
        (&[5, 4], &[]),
        (&[1, 3], &[1, 3]),
        (&[0, 3], &[1, 3]),
    ] {
        let rhs = CaseOperand::new(dtype, rhs).with_fill(rhs_fill);
        cases.add([CaseOperand::new(dtype, lhs), rhs], args.clone());
    }
}
