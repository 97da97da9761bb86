//! Rows that many rules share.

use super::{Role, Rows, RuleCx};
use crate::{Error, ErrorKind, Place, Result, placement::sharded};

/// The row on which everything is Replicated. Every rule starts with it, unless an operand is written.
pub fn replicated_rows(cx: &RuleCx<'_>, rows: &mut Rows) {
    rows.add(cx.operands.iter().map(|_| Place::Replicated), cx.results.iter().map(|_| Place::Replicated));
}

/// Rows for an op whose results have the axes of one operand: `map(axis)` is the axis of every result that tensor
/// axis `axis` of `operand` becomes, or `None` where it must stay whole. Other operands are Replicated.
/// Custom placements found there are carried.
pub fn pass_through_rows(
    cx: &RuleCx<'_>,
    operand: usize,
    rows: &mut Rows,
    map: impl Fn(usize) -> Option<usize>,
) {
    for axis in 0..cx.ndim(operand) {
        let Some(to) = map(axis) else { continue };
        for place in std::iter::once(sharded(axis)).chain(cx.carried(operand, axis)) {
            rows.add(
                (0..cx.operands.len()).map(|i| if i == operand { place } else { Place::Replicated }),
                cx.results.iter().map(|_| place.on_axis(to)),
            );
        }
    }
}

/// Rows of an elementwise op whose operands broadcast, aligned at the last axis: each result axis split, on every
/// operand that has the result's extent there; operands that broadcast are Replicated.
pub fn elementwise_rows(cx: &RuleCx<'_>, rows: &mut Rows) {
    let Some(result) = cx.results.first() else { return };
    let ndim = result.shape.len();
    // Where operand `i` has result axis `axis`, unless it broadcasts there.
    let own = |i: usize, axis: usize| {
        let own = (axis + cx.ndim(i)).checked_sub(ndim)?;
        // An extent of 1 that does not broadcast is split like any other: all but the first device then hold none of
        // it, and none of the result.
        (cx.extent(i, own) == result.shape.extent(axis)).then_some(own)
    };
    for axis in 0..ndim {
        let carried = (0..cx.operands.len()).filter_map(|i| cx.carried(i, own(i, axis)?));
        let places: smallvec::SmallVec<[Place; 2]> =
            std::iter::once(sharded(axis)).chain(carried.map(|place| place.on_axis(axis))).collect();
        for place in places {
            rows.add(
                (0..cx.operands.len())
                    .map(|i| own(i, axis).map_or(Place::Replicated, |own| place.on_axis(own))),
                cx.results.iter().map(|_| place),
            );
        }
    }
}

/// The one row of an op that never moves its inputs and writes or returns in the placement of `operand`: all other
/// tensors must already be placed like it.
///
/// # Errors
/// [`ErrorKind::Sharding`] if one is placed otherwise, with the transfer to write.
pub fn match_operand_placement(cx: &RuleCx<'_>, operand: usize, rows: &mut Rows) -> Result<()> {
    let place = cx.place(operand);
    let differs = |i: &usize| {
        let other = cx.place(*i);
        let role = cx.operands.get(*i).map(|o| o.role);
        other != place && other != Place::Unknown && place != Place::Unknown && role != Some(Role::Scalar)
    };
    if let Some(other) = (0..cx.operands.len()).find(differs) {
        return Err(Error::new(ErrorKind::Sharding, format!("operand {other} is placed {} where operand {operand} is placed {place}, and this op never moves its inputs", cx.place(other)))
            .with_fix("move it first: source.transfer_to(destination.mapping())"));
    }
    rows.add((0..cx.operands.len()).map(|i| cx.place(i)), cx.results.iter().map(|_| place));
    Ok(())
}
