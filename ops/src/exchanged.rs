//! Rows of movement ops on which elements change their device inside the op.

use sharding_core::Place;
use sharding_core::backend::IndexMap;
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, exchange_stage};

/// Adds the row on which operands lie as they do and the result lies as `result` says, staged: the op's staged function is
/// [`StageCx::exchange`](sharding_core::StageCx::exchange) of `map`. Where elements would move in too many
/// pieces there is no such row.
pub(crate) fn add_row(
    cx: &RuleCx<'_>,
    rows: &mut Rows,
    map: &IndexMap,
    places: impl IntoIterator<Item = Place>,
    result: Place,
) {
    let operands: Vec<Place> = places.into_iter().collect();
    if let Some(stage) = exchange_stage(cx, map, &operands, 0, result) {
        rows.add_staged(operands, [result], [stage]);
    }
}

/// `Sharded(axis)` of the first result if every device gets some of it, together with the other mesh axes that split what
/// the operand's axis `from` becomes; else Replicated.
pub(crate) fn split_or_whole(cx: &RuleCx<'_>, from: usize, axis: Option<usize>) -> Place {
    let ways = cx.ways().saturating_mul(cx.ways_elsewhere(0, from));
    let extent = |axis: usize| cx.results.first().map_or(0, |meta| meta.shape.extent(axis));
    match axis {
        Some(axis) if extent(axis) >= ways => sharded(axis),
        _ => Place::Replicated,
    }
}
