//! Words: who holds what.

use crate::placement::Ranges;
use crate::text::{clean, cut};
use crate::{DeviceMesh, Place, ReduceOp, Shape, TensorLayout};

/// The longest text of a placement; a Ragged over a thousand devices has a thousand sizes.
const LONGEST: usize = 48;

/// A placement, cut where it is long.
pub(super) fn short(place: Place) -> String {
    cut(&clean(&place.to_string()), LONGEST)
}

/// What a placement does.
pub(super) fn meaning(place: Place) -> String {
    match place {
        Place::Replicated => "every device holds the same".to_owned(),
        Place::Partial(op) => format!("every device holds a term, the value is their {}", combined(op)),
        Place::Unknown => "every device holds something of its own".to_owned(),
        Place::Sharded(axis) => format!("axis {axis} is split"),
        Place::Custom(custom) => match custom.tensor_axis() {
            Some(axis) => format!("axis {axis} is split by a placement of its own kind"),
            None => "a placement of its own kind".to_owned(),
        },
    }
}

fn combined(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "sum",
        ReduceOp::Max => "maximum",
        ReduceOp::Min => "minimum",
        ReduceOp::Prod => "product",
    }
}

/// Indices, local array and share of a device, as columns. `held` is the shape of its shard where it is at hand.
pub(super) fn holding(layout: &TensorLayout, position: usize, held: Option<&Shape>) -> Vec<String> {
    if layout.places().contains(&Place::Unknown) {
        let array = held.map_or("-".to_owned(), |shape| format!("{}{shape}", layout.dtype()));
        return vec!["unknown".to_owned(), array, "-".to_owned()];
    }
    let region = layout.region(position);
    let axes: Vec<String> =
        region.iter().zip(layout.shape().iter()).map(|(ranges, extent)| slice(ranges, *extent)).collect();
    let local = layout.local_shape(position);
    let share = match (local.elements(), layout.shape().elements()) {
        (_, 0) => "-".to_owned(),
        (0, _) => "empty".to_owned(),
        (own, all) => percent(own as f64 / all as f64),
    };
    vec![format!("[{}]", axes.join(", ")), format!("{}{local}", layout.dtype()), share]
}

/// Ranges of one axis as in an index expression.
pub(super) fn slice(ranges: &Ranges, extent: usize) -> String {
    const MOST: usize = 4;
    if ranges.len() == 1 && ranges.first().is_some_and(|range| *range == (0..extent)) {
        return ":".to_owned();
    }
    let mut words: Vec<String> =
        ranges.iter().take(MOST).map(|range| format!("{}:{}", range.start, range.end)).collect();
    if ranges.len() > MOST {
        words.push("…".to_owned());
    }
    words.join(" ")
}

/// A part of the whole.
pub(super) fn percent(share: f64) -> String {
    let tenths = (share * 1000.0).round() / 10.0;
    match (tenths, share > 0.0) {
        (0.0, true) => "<0.1%".to_owned(),
        _ if tenths.fract() == 0.0 => format!("{tenths:.0}%"),
        _ => format!("{tenths:.1}%"),
    }
}

/// Whether a device is known to hold no element of a tensor that has some.
pub(super) fn is_empty(layout: &TensorLayout, position: usize) -> bool {
    layout.shape().elements() > 0
        && !layout.places().contains(&Place::Unknown)
        && layout.local_shape(position).elements() == 0
}

/// Ascending positions: `0, 2-5`.
pub(super) fn list(positions: &[usize]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = positions.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if_eq(&(last + 1)) {
            last = next;
        }
        words.push(match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first}-{last}"),
        });
    }
    words.join(", ")
}

/// The devices that hold a block together: copies as a list, terms joined by what combines them.
pub(super) fn holders(mesh: &DeviceMesh, places: &[Place], positions: &[usize]) -> String {
    let op =
        places.iter().enumerate().find_map(|(axis, place)| place.reduce_op().filter(|_| mesh.size(axis) > 1));
    let Some(op) = op else { return list(positions) };
    let term = |position: usize| -> Vec<usize> {
        let partial = places.iter().enumerate().filter(|(_, place)| place.is_partial());
        partial.map(|(axis, _)| mesh.coord(position, axis)).collect()
    };
    let mut terms: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for position in positions {
        let own = term(*position);
        match terms.iter_mut().find(|(known, _)| *known == own) {
            Some((_, copies)) => copies.push(*position),
            None => terms.push((own, vec![*position])),
        }
    }
    let copied = terms.iter().any(|(_, copies)| copies.len() > 1);
    let word = |(_, copies): &(Vec<usize>, Vec<usize>)| {
        if copied { format!("({})", list(copies)) } else { list(copies) }
    };
    let mut words: Vec<String> = terms.iter().map(word).collect();
    if let (true, Some(last)) = (words.len() > 4, words.last().cloned()) {
        words.truncate(2);
        words.extend(["…".to_owned(), last]);
    }
    match op {
        ReduceOp::Sum => words.join(" + "),
        ReduceOp::Prod => words.join(" × "),
        ReduceOp::Max => format!("max({})", words.join(", ")),
        ReduceOp::Min => format!("min({})", words.join(", ")),
    }
}
