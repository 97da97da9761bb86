//! Rows of movement ops on which elements change their device inside the op.

use sharding_core::Place;
use sharding_core::backend::IndexMap;
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, exchange_stage};
use smallvec::SmallVec;

/// The most results that are made by exchanges: each is one of its own, and where there are more, bringing the operand
/// together costs less.
pub(crate) const MOST_RESULTS: usize = 64;

/// Adds the row on which operands lie as they do and each result lies as said beside its map, staged: the op's staged
/// function is a [`StageCx::exchange`](sharding_core::StageCx::exchange) of each map, in order. Where elements would move in
/// too many pieces there is no such row.
pub(crate) fn add_row(
    cx: &RuleCx<'_>,
    rows: &mut Rows,
    places: impl IntoIterator<Item = Place>,
    results: &[(IndexMap, Place)],
) {
    let operands: SmallVec<[Place; 4]> = places.into_iter().collect();
    if results.len() > MOST_RESULTS {
        return;
    }
    let stage =
        |(i, (map, place)): (usize, &(IndexMap, Place))| exchange_stage(cx, map, &operands, i, *place);
    let stages: Option<Vec<_>> = results.iter().enumerate().map(stage).collect();
    if let Some(stages) = stages {
        let places: SmallVec<[Place; 2]> = results.iter().map(|(_, place)| *place).collect();
        rows.add_exchanged(operands, places, stages, results.iter().map(|(map, _)| map.clone()));
    }
}

/// `Sharded(axis)` of a result if every device gets some of it, together with the other mesh axes that split what the
/// operand's axis `from` becomes; else Replicated.
pub(crate) fn split_or_whole(cx: &RuleCx<'_>, from: usize, result: usize, axis: Option<usize>) -> Place {
    let ways = cx.ways().saturating_mul(cx.ways_elsewhere(0, from));
    let extent = |axis: usize| cx.results.get(result).map_or(0, |meta| meta.shape.extent(axis));
    match axis {
        Some(axis) if extent(axis) >= ways => sharded(axis),
        _ => Place::Replicated,
    }
}
