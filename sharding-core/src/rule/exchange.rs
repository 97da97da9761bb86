//! The stage of a row that moves elements between devices.

use super::{RuleCx, StageCollective};
use crate::backend::{IndexMap, StepKind};
use crate::redistribute::index_cut::{self, region_of};
use crate::{Place, Region, Shape};
use smallvec::SmallVec;

/// On so many devices the bytes are worked out; on more the largest piece of the result stands for them.
pub(crate) const MOST_DEVICES: usize = 64;
/// So many boxes of a result are moved, over all devices: each is a copy of its own, and where there are more, bringing the
/// operand together costs less.
pub(crate) const MOST_BOXES: usize = 1 << 12;

/// The stage of a row on which [`StageCx::exchange`](crate::StageCx::exchange) makes result number `result`: the most bytes that
/// one device receives when operands and result lie as the row says on the mesh axis in question, and are whole on the
/// others. `map` speaks of global indices.
///
/// At most the largest piece of the result: that is also the answer for many devices. `None` where the result is made of so
/// many boxes that moving each by itself is no way: then there is no such row.
pub fn exchange_stage(
    cx: &RuleCx<'_>,
    map: &IndexMap,
    operands: &[Place],
    result: usize,
    place: Place,
) -> Option<StageCollective> {
    let ways = cx.ways();
    let size = cx.results.get(result).map_or(1, |meta| meta.dtype.size());
    let region = |part| region_of(&map.shape, place, ways, part);
    let piece = |part: usize| -> usize {
        region(part).iter().map(|ranges| ranges.iter().map(|range| range.len()).sum::<usize>()).product()
    };
    let bound = || (0..ways.min(MOST_DEVICES)).map(piece).max().unwrap_or(0);
    let looked_at = received(cx, map, operands, &region, ways.min(MOST_DEVICES))?;
    let elements = if ways > MOST_DEVICES { bound() } else { looked_at };
    Some(StageCollective { kind: StepKind::Permute, bytes: elements * size })
}

/// The most elements that one of the first devices receives; `None` for more boxes than are moved, or a wrong map.
fn received(
    cx: &RuleCx<'_>,
    map: &IndexMap,
    operands: &[Place],
    region: &dyn Fn(usize) -> Region,
    looked_at: usize,
) -> Option<usize> {
    let shapes: SmallVec<[&Shape; 4]> = cx.operands.iter().map(|operand| &operand.meta.shape).collect();
    let (mut most, mut boxes) = (0, 0);
    for part in 0..looked_at {
        let own = |operand: usize| match (shapes.get(operand), operands.get(operand)) {
            (Some(shape), Some(place)) => region_of(shape, *place, cx.ways(), part),
            _ => Region::new(),
        };
        let one = index_cut::received(map, &shapes, &region(part), own, MOST_BOXES - boxes).ok()?;
        boxes += one.boxes;
        most = most.max(one.elements);
    }
    Some(most)
}
