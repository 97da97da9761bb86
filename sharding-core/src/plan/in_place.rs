//! Operands of a movement op that are read where they lie.

use super::Plan;
use crate::mapping::Places;
use crate::rule::{AxisAssignment, MOST_BOXES, MOST_DEVICES};
use crate::{DeviceMapping, Place, TensorLayout};
use smallvec::SmallVec;

/// Whether elements of the call's operands change their device inside the op.
pub(super) fn exchanges(plan: &Plan) -> bool {
    plan.rows.iter().any(AxisAssignment::exchanges)
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
pub(super) fn staged_axes(plan: &Plan, operands: &[TensorLayout]) -> SmallVec<[usize; 2]> {
    let is_read_along = |axis: usize| {
        operands.iter().zip(&plan.operands).any(|(layout, wanted)| {
            let place = layout.mapping().place(axis);
            wanted.get(axis).is_some_and(|wanted| *wanted != place) && place.tensor_axis().is_some()
        })
    };
    plan.rows
        .iter()
        .enumerate()
        .filter(|(axis, row)| row.is_staged() || is_read_along(*axis))
        .map(|(axis, _)| axis)
        .collect()
}
