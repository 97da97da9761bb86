//! Rows of ops that put operands side by side: concat and stack.

use crate::{exchanged, row};
use sharding_core::Place;
use sharding_core::backend::IndexMap;
use sharding_core::placement::sharded;
use sharding_core::rule::{Role, Rows, RuleCx, replicated_rows};
use smallvec::SmallVec;

/// Which axes operands and result share.
pub(crate) struct Join<F> {
    /// The axis of the operands along which they lie one after the other; none where the result has a new one for that.
    pub(crate) along: Option<usize>,
    /// The axis of the result that an axis of the operands becomes.
    pub(crate) to: F,
}

/// Every axis that operands and result share may be split, alike in all operands. Parts of all of them together are parts of
/// the result; parts of one beside the whole of another are not.
///
/// Where operands lie otherwise elements change their device: they stay as they are, and every device gets what it does not
/// hold of its piece of the result, which is split as one of them is. Along the joined axis that is so for any split: the
/// pieces of a device would come to lie one after the other, while the whole has all of the first operand before the second.
///
/// A new axis is never split: of `k` operands a device would receive `k/n` wholes but for what it holds of them, and as
/// many pieces of a share `1/n` if the result is split as one of them.
pub(crate) fn rows<F: Fn(usize) -> usize>(
    cx: &RuleCx<'_>,
    join: &Join<F>,
    map: impl FnOnce() -> Option<IndexMap>,
) -> Rows {
    let n = cx.operands.len();
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    for own in (0..cx.ndim(0)).filter(|own| Some(*own) != join.along) {
        for place in std::iter::once(sharded(own)).chain((0..n).filter_map(|i| cx.carried(i, own))) {
            rows.add(std::iter::repeat_n(place, n), [place.on_axis((join.to)(own))]);
        }
    }
    let partial = Place::Partial(row::combination(cx));
    rows.add(std::iter::repeat_n(partial, n), [partial]);
    let splits = splits(cx);
    if !splits.is_empty()
        && (splits.len() > 1 || is_split_along(&splits, join.along) || passes_a_whole(cx))
        && let Some(map) = map()
    {
        for split in &splits {
            add_exchange(cx, &mut rows, join, &map, *split);
        }
    }
    rows
}

/// The splits of the operands, each once.
fn splits(cx: &RuleCx<'_>) -> SmallVec<[Place; 4]> {
    let mut splits: SmallVec<[Place; 4]> = SmallVec::new();
    for place in (0..cx.operands.len()).map(|i| cx.place(i)) {
        if place.tensor_axis().is_some() && !splits.contains(&place) {
            splits.push(place);
        }
    }
    splits
}

fn is_split_along(splits: &[Place], axis: Option<usize>) -> bool {
    axis.is_some() && splits.iter().any(|place| place.tensor_axis() == axis)
}

/// Whether an operand is one that no row can split.
fn passes_a_whole(cx: &RuleCx<'_>) -> bool {
    cx.operands.iter().any(|operand| operand.role == Role::Single)
}

/// Adds the row on which the result is split as an operand is, and the operands stay as they are; what is to be combined is
/// combined in pieces of that split.
fn add_exchange<F: Fn(usize) -> usize>(
    cx: &RuleCx<'_>,
    rows: &mut Rows,
    join: &Join<F>,
    map: &IndexMap,
    split: Place,
) {
    let Some(axis) = split.tensor_axis() else { return };
    let result = match join.along {
        Some(along) if along == axis => exchanged::split_or_whole(cx, axis, 0, Some(axis)),
        _ => split.on_axis((join.to)(axis)),
    };
    let stays = |place: Place| place.tensor_axis().is_some() || place == Place::Replicated;
    let operand = |i: usize| {
        let place = cx.place(i);
        if stays(place) { place } else { sharded(axis) }
    };
    exchanged::add_row(cx, rows, (0..cx.operands.len()).map(operand), &[(map.clone(), result)]);
}
