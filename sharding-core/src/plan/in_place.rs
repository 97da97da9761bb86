//! Operands of a movement op that are read where they lie.

use super::CostModel;
use crate::backend::{Exchange, IndexMap};
use crate::mapping::Places;
use crate::rule::{AxisAssignment, MOST_BOXES, MOST_DEVICES, StageCollective};
use crate::{DeviceMapping, Place, TensorLayout};
use smallvec::SmallVec;
use std::sync::Arc;

/// Whether elements of the call's operands change their device inside the op.
pub(super) fn exchanges(rows: &[AxisAssignment]) -> bool {
    rows.iter().any(AxisAssignment::exchanges)
}

/// What the exchanges of a call read; `None` where its rows do not say.
pub(super) fn maps(rows: &[AxisAssignment]) -> Option<&Arc<[IndexMap]>> {
    // Maps speak of global indices: those of all mesh axes are the same.
    rows.iter().find_map(|row| row.maps.as_ref())
}

/// What the exchanges of a call cost: of each result what the device receives that lacks most of its piece. `axes` are those of
/// [`staged_axes`]. `None` for maps that do not fit the layouts.
pub(super) fn price(
    maps: &[IndexMap],
    operands: &[TensorLayout],
    results: &[TensorLayout],
    axes: &[usize],
    cost: &dyn CostModel,
) -> Option<f64> {
    let one = |(map, result): (&IndexMap, &TensorLayout)| {
        let exchange = Exchange { map, operands, result, axes };
        Some(exchange.price(cost, exchange.most_received().ok()?))
    };
    if maps.len() != results.len() { None } else { maps.iter().zip(results).map(one).sum() }
}

/// What the stages of a row cost that are no exchange, and the score of those that are.
pub(super) fn stages(row: &AxisAssignment, price: impl Fn(&AxisAssignment) -> f64) -> (f64, f64) {
    if !row.exchanges() {
        return (price(row), 0.0);
    }
    let (exchanges, others) = row.stages.iter().copied().partition(StageCollective::exchanges);
    let of = |stages| price(&AxisAssignment { stages, ..AxisAssignment::new([], []) });
    (of(others), of(exchanges))
}

/// Where an exchange reads an operand that its rows want at `wanted`: what is to be combined is combined, all else stays.
///
/// An exchange gives every device what it lacks of its piece of the result, wherever that lies. Brought to `wanted` first, on
/// the mesh axes whose rows are no exchange, elements would come to devices that have no use for them, and others would move
/// twice. `None` where the operand lies in so many boxes that a copy of each by itself is no way.
pub(super) fn read_at(present: &TensorLayout, wanted: &TensorLayout) -> Option<TensorLayout> {
    let lies = |place: Place| place == Place::Replicated || place.tensor_axis().is_some();
    let places: Places = present
        .places()
        .iter()
        .zip(wanted.places())
        .map(|(present, wanted)| if lies(*present) && lies(*wanted) { *present } else { *wanted })
        .collect();
    let layout = if places.as_slice() == present.places() {
        present.clone()
    } else {
        present.with_mapping(DeviceMapping::new(wanted.mesh(), places).ok()?).ok()?
    };
    let boxes = |position| layout.region(position).iter().map(SmallVec::len).product::<usize>();
    let all: usize = (0..layout.mesh().num_devices().min(MOST_DEVICES)).map(boxes).sum();
    (all <= MOST_BOXES).then_some(layout)
}

/// The mesh axes along which the op's staged function communicates: those of staged rows, and those along which an exchange
/// reads an operand that lies otherwise than its row says.
pub(super) fn staged_axes(
    rows: &[AxisAssignment],
    wanted: &[Places],
    operands: &[TensorLayout],
) -> SmallVec<[usize; 2]> {
    let is_read_along = |axis: usize| {
        operands.iter().zip(wanted).any(|(layout, wanted)| {
            let place = layout.mapping().place(axis);
            wanted.get(axis).is_some_and(|wanted| *wanted != place) && place.tensor_axis().is_some()
        })
    };
    rows.iter()
        .enumerate()
        .filter(|(axis, row)| row.is_staged() || is_read_along(*axis))
        .map(|(axis, _)| axis)
        .collect()
}
