//! The stage of a row that moves elements between devices.

use super::{RuleCx, StageCollective};
use crate::backend::{IndexMap, StepKind};
use crate::redistribute::index_cut::{affine, held, region_of};
use crate::{Place, Shape};
use smallvec::SmallVec;

/// On so many devices the bytes are worked out; on more the largest piece of the result stands for them.
const MOST_DEVICES: usize = 64;
/// So many boxes of a result are looked at, over all devices.
const MOST_BOXES: usize = 1 << 12;

/// The stage of a row on which [`StageCx::exchange`](crate::StageCx::exchange) makes result number `result`: the most bytes that
/// one device receives when operands and result lie as the row says on the mesh axis in question, and are whole on the
/// others. `map` speaks of global indices.
///
/// At most the largest piece of the result: that is also the answer for many devices, and for results made of many boxes.
pub fn exchange_stage(
    cx: &RuleCx<'_>,
    map: &IndexMap,
    operands: &[Place],
    result: usize,
    place: Place,
) -> StageCollective {
    let ways = cx.ways();
    let size = cx.results.get(result).map_or(1, |meta| meta.dtype.size());
    let region = |part| region_of(&map.shape, place, ways, part);
    let piece = |part: usize| -> usize {
        region(part).iter().map(|ranges| ranges.iter().map(|range| range.len()).sum::<usize>()).product()
    };
    let bound = || (0..ways.min(MOST_DEVICES)).map(piece).max().unwrap_or(0);
    let elements = if ways > MOST_DEVICES { None } else { received(cx, map, operands, &region, ways) };
    StageCollective { kind: StepKind::Permute, bytes: elements.unwrap_or_else(bound) * size }
}

/// The most elements that one device receives; `None` where that takes too long to say, or the map is wrong.
fn received(
    cx: &RuleCx<'_>,
    map: &IndexMap,
    operands: &[Place],
    region: &dyn Fn(usize) -> crate::Region,
    ways: usize,
) -> Option<usize> {
    let shapes: SmallVec<[&Shape; 4]> = cx.operands.iter().map(|operand| &operand.meta.shape).collect();
    let (mut most, mut boxes) = (0, 0);
    for part in 0..ways {
        let mut gets = 0;
        let cuts = affine(map, &shapes, &region(part), MOST_BOXES - boxes).ok()?;
        boxes += cuts.len();
        for cut in cuts {
            let own = region_of(shapes.get(cut.operand)?, *operands.get(cut.operand)?, ways, part);
            gets += cut.elements() - held(&cut, &own);
        }
        most = most.max(gets);
    }
    Some(most)
}
