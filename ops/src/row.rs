//! Rows that several ops of this crate share, beside those of `sharding_core::rule`.

use sharding_core::rule::{Rows, RuleCx, pass_through_rows, replicated_rows};
use sharding_core::{Place, ReduceOp};

/// How the parts of the operands combine on the mesh axis in question: as those that are Partial now say, else by sum.
/// An op that only moves elements passes any combination through.
pub(crate) fn combination(cx: &RuleCx<'_>) -> ReduceOp {
    (0..cx.operands.len()).find_map(|i| cx.place(i).reduce_op()).unwrap_or_default()
}

/// Rows of an op that moves the elements of its one operand: all Replicated, then each axis that `map` gives a result
/// axis for, then Partial through.
pub(crate) fn movement_rows(cx: &RuleCx<'_>, map: impl Fn(usize) -> Option<usize>) -> Rows {
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    pass_through_rows(cx, 0, &mut rows, map);
    let partial = Place::Partial(combination(cx));
    rows.add([partial], cx.results.iter().map(|_| partial));
    rows
}

/// Rows of a reduction of `axis`: all Replicated, then the other axes, and `axis` itself to Partial where its parts can
/// be combined by `parts`; in the order of the axes.
pub(crate) fn reduction_rows(cx: &RuleCx<'_>, axis: usize, keepdims: bool, parts: Option<ReduceOp>) -> Rows {
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    for own in 0..cx.ndim(0) {
        if own != axis {
            let to = if !keepdims && own > axis { own - 1 } else { own };
            pass_through_rows(cx, 0, &mut rows, |candidate| (candidate == own).then_some(to));
        } else if let Some(op) = parts {
            for place in std::iter::once(sharding_core::placement::sharded(own)).chain(cx.carried(0, own)) {
                rows.add([place], [Place::Partial(op)]);
            }
        }
    }
    rows
}

/// Rows of an op that is monotone in each operand and picks one of their elements: the parts of a maximum or minimum in
/// one operand pass through, the others being whole. None where an earlier mesh axis left parts that combine otherwise: a
/// result cannot be both.
pub(crate) fn extreme_rows(cx: &RuleCx<'_>) -> Rows {
    let mut rows = Rows::new();
    let op = combination(cx);
    let other = |place: &Place| place.reduce_op().is_some_and(|committed| committed != op);
    if !matches!(op, ReduceOp::Max | ReduceOp::Min)
        || cx.committed.iter().any(|row| row.results.iter().any(other))
    {
        return rows;
    }
    for operand in 0..cx.operands.len() {
        let place = |i: usize| if i == operand { Place::Partial(op) } else { Place::Replicated };
        rows.add((0..cx.operands.len()).map(place), [Place::Partial(op)]);
    }
    rows
}
