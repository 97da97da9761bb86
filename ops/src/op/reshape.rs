//! Another shape of as many elements.

use crate::{exchanged, row};
use sharding_core::backend::{IndexMap, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::{Ragged, sharded};
use sharding_core::rule::{Rows, RuleCx, replicated_rows};
use sharding_core::split::balanced_sizes;
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Place, Result, Shape, Shards, StageCx, TensorMeta, sharding_rule,
};
use std::ops::Range;

/// The wanted shape, with -1 worked out.
fn target(from: &Shape, dims: &[isize]) -> Result<Shape> {
    let elements = from.elements();
    let argument = |message: String| Error::new(ErrorKind::Argument, message);
    if dims.iter().filter(|n| **n == -1).count() > 1 {
        return Err(argument(format!("{dims:?} has more than one -1; only one extent can be worked out"))
            .with_fix("write all extents but one"));
    }
    if let Some(negative) = dims.iter().find(|n| **n < -1) {
        return Err(
            argument(format!("{negative} is no extent")).with_fix("write an extent, or -1 for the one left")
        );
    }
    let known = dims
        .iter()
        .filter(|n| **n != -1)
        .try_fold(1_usize, |product, n| product.checked_mul(n.unsigned_abs()))
        .ok_or_else(|| {
            Error::new(ErrorKind::Overflow, format!("{dims:?} has too many elements"))
                .with_fix(format!("use extents whose product is {elements}"))
        })?;
    let misfit = || {
        Error::new(
            ErrorKind::Shape,
            format!("{from} has {elements} elements, {dims:?} asks for another number"),
        )
        .with_fix(format!("use extents whose product is {elements}, or -1 for one of them"))
    };
    let free = match (dims.contains(&-1), known) {
        (true, 0) => {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("any extent would do for the -1 in {dims:?} beside a 0"),
            )
            .with_fix("write the extent"));
        }
        (true, known) if elements.is_multiple_of(known) => elements / known,
        (false, known) if known == elements => 1,
        _ => return Err(misfit()),
    };
    Shape::new(dims.iter().map(|n| if *n == -1 { free } else { n.unsigned_abs() }).collect::<Shape>())
}

/// Runs of axes of the two shapes with equal numbers of elements, as short as possible: elements stay inside their run.
fn groups(from: &[usize], to: &[usize]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut groups = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(a), Some(b)) = (from.get(i), to.get(j)) {
        let (start, into) = (i, j);
        let (mut a, mut b) = (*a, *b);
        (i, j) = (i + 1, j + 1);
        while a != b {
            let (shorter, extents, next) = if a < b { (&mut a, from, &mut i) } else { (&mut b, to, &mut j) };
            let Some(extent) = extents.get(*next) else {
                // An extent of 0 on either side: products need not meet.
                return groups;
            };
            *shorter = shorter.saturating_mul(*extent);
            *next += 1;
        }
        groups.push((start..i, into..j));
        if a == 0 {
            // Behind a 0, any products are equal: nothing can be said about later axes.
            return groups;
        }
    }
    groups
}

/// The axis that counts in a run: the first whose extent is not 1. Those behind it vary faster, so a split of them is
/// scattered over the run.
fn leading(extents: &[usize], run: &Range<usize>) -> Option<usize> {
    let first = run.clone().find(|axis| extents.get(*axis) != Some(&1));
    first.or_else(|| run.clone().next())
}

/// Where a split of an axis comes to lie.
pub(crate) struct Kept {
    /// The axis of the operand.
    pub(crate) axis: usize,
    /// The axis of the result.
    pub(crate) to: usize,
    /// Elements of the run behind one index of `axis`, and of `to`.
    pub(crate) inner: (usize, usize),
    /// The axes of the operand whose elements stay together with those of `axis`.
    pub(crate) run: Range<usize>,
}

/// The axes whose split a reshape may keep: the leading axis of each run goes to the leading axis of the run it becomes.
fn kept(from: &[usize], to: &[usize]) -> Vec<Kept> {
    let behind = |extents: &[usize], axis: usize, run: &Range<usize>| {
        extents.get(axis + 1..run.end).unwrap_or(&[]).iter().product()
    };
    groups(from, to)
        .iter()
        .filter_map(|(run, into)| {
            let (axis, to_axis) = (leading(from, run)?, leading(to, into)?);
            let inner = (behind(from, axis, run), behind(to, to_axis, into));
            Some(Kept { axis, to: to_axis, inner, run: run.clone() })
        })
        .collect()
}

/// What a balanced split of `kept.axis` over `ways` devices, of which `elsewhere` are other mesh axes', is for the result:
/// the balanced split of its axis, or a ragged one if it has the mesh axis for itself.
fn balanced(kept: &Kept, extent: usize, ways: usize, elsewhere: usize) -> Option<Place> {
    let (inner, to_inner) = kept.inner;
    let whole = ways.checked_mul(elsewhere)?;
    if inner == to_inner {
        return Some(sharded(kept.to));
    }
    if to_inner == 0 {
        return None;
    }
    if extent.is_multiple_of(whole) {
        // Equal pieces; they are equal afterwards too if their borders fall between indices.
        return (extent / whole)
            .checked_mul(inner)
            .filter(|piece| piece.is_multiple_of(to_inner))
            .map(|_| sharded(kept.to));
    }
    // Pieces differ by one index of `axis`, so that must be whole indices of `to`.
    let per_index = inner / to_inner;
    (elsewhere == 1 && inner.is_multiple_of(to_inner)).then(|| {
        let sizes: Vec<usize> = balanced_sizes(extent, ways).map(|size| size * per_index).collect();
        Ragged::place(kept.to, sizes)
    })
}

/// What a placement of the open trait is for the result: itself if the axis keeps its indices, else ragged if every
/// device's range, in order, is a number of whole indices.
fn carried(place: Place, kept: &Kept, extent: usize, ways: usize) -> Option<Place> {
    let (inner, to_inner) = kept.inner;
    if inner == to_inner {
        return Some(place.on_axis(kept.to));
    }
    let Place::Custom(custom) = place else { return None };
    let mut next = 0;
    let mut sizes = Vec::with_capacity(ways);
    for part in 0..ways {
        let ranges = custom.placement().ranges(extent, ways, part);
        let range = match ranges.as_slice() {
            [] => next..next,
            [range] => range.clone(),
            _ => return None,
        };
        let elements = range.len().checked_mul(inner)?;
        if (range.start != next && !range.is_empty()) || to_inner == 0 || !elements.is_multiple_of(to_inner) {
            return None;
        }
        next = next.max(range.end);
        sizes.push(elements / to_inner);
    }
    Some(Ragged::place(kept.to, sizes))
}

/// Adds the rows on which a split stays, if there are any.
pub(crate) fn keep(cx: &RuleCx<'_>, rows: &mut Rows, kept: &Kept) {
    let extent = cx.extent(0, kept.axis);
    if is_taken(cx, kept.to) {
        return;
    }
    // A placement of its own would have the result's axis for itself, and leave none for a mesh axis that splits another
    // axis of the run.
    let shared = kept.run.clone().any(|axis| axis != kept.axis && cx.ways_elsewhere(0, axis) > 1);
    let fits = |result: &Place| matches!(result, Place::Sharded(_)) || !shared;
    let even = balanced(kept, extent, cx.ways(), cx.ways_elsewhere(0, kept.axis));
    if let Some(place) = even.filter(fits) {
        rows.add([sharded(kept.axis)], [place]);
    }
    if let Some(place) = cx.carried(0, kept.axis)
        && let Some(result) = carried(place, kept, extent, cx.ways()).filter(fits)
    {
        rows.add([place], [result]);
    }
}

/// Whether an earlier mesh axis left a split on the result that has the axis for itself.
fn is_taken(cx: &RuleCx<'_>, to: usize) -> bool {
    cx.committed
        .iter()
        .flat_map(|row| row.results.first())
        .any(|place| matches!(place, Place::Custom(_)) && place.tensor_axis() == Some(to))
}

/// By global shapes: the elements of a run of axes stay in one run of the result, so a split of the run's leading axis
/// stays a split if the devices' borders fall on whole indices of the new leading axis. All mesh axes that split the axis
/// count together: they are one split. Partial and Unknown pass.
pub(crate) fn rule(cx: &RuleCx<'_>, dims: &[isize]) -> Result<Rows> {
    let mut rows = Rows::new();
    let Some(x) = cx.operands.first() else { return Ok(rows) };
    let to = target(&x.meta.shape, dims)?;
    replicated_rows(cx, &mut rows);
    for kept in kept(&x.meta.shape, &to) {
        keep(cx, &mut rows, &kept);
    }
    let partial = Place::Partial(row::combination(cx));
    rows.add([partial], [partial]);
    let present = cx.place(0);
    if let Some(axis) = present.tensor_axis()
        && !rows.iter().any(|row| row.operands.first() == Some(&present))
    {
        // The first axis of the run that the axis becomes that all devices can share; else all get all of it.
        let run = groups(&x.meta.shape, &to).into_iter().find(|(run, _)| run.contains(&axis));
        let axes = run.map_or(0..to.len(), |(_, into)| into);
        let free = axes.filter(|to| !is_taken(cx, *to));
        let shared = free.map(|to| exchanged::split_or_whole(cx, axis, 0, Some(to)));
        let place = shared.into_iter().find(|place| *place != Place::Replicated).unwrap_or(Place::Replicated);
        exchanged::add_row(cx, &mut rows, [present], &[(IndexMap::reshape(&to), place)]);
    }
    if cx.place(0) == Place::Unknown {
        rows.add([Place::Unknown], [Place::Unknown]);
    }
    Ok(rows)
}

/// The meta of the result.
pub(crate) fn shape(x: &TensorMeta, dims: &[isize]) -> Result<TensorMeta> {
    Ok(TensorMeta::new(x.dtype, target(&x.shape, dims)?))
}

/// Elements change their device.
pub(crate) fn stages(cx: &mut StageCx<'_>, x: &Shards, dims: &[isize]) -> Result<Shards> {
    let to = target(cx.operand(0)?.shape(), dims)?;
    cx.exchange(&IndexMap::reshape(&to), 0, std::slice::from_ref(x))
}

fn cases(cases: &mut Cases) {
    for (shape, dims) in [
        (&[4, 6][..], &[24][..]),
        (&[24], &[4, -1]),
        (&[8, 6], &[8, 2, 3]),
        (&[6, 4, 2], &[-1, 8]),
        (&[7, 8], &[56]),
        (&[56], &[7, 8]),
        (&[7, 8], &[1, 7, 1, 8]),
        (&[1, 8], &[8]),
        (&[3, 4], &[2, 6]),
        (&[0, 3], &[3, 0]),
        (&[5, 0], &[5, 0, 2]),
        (&[1], &[]),
    ] {
        for dtype in [DType::F32, DType::I64] {
            cases.add([CaseOperand::new(dtype, shape)], reshape { dims: dims.into() });
        }
    }
}

/// The same elements in row-major order under another shape of as many elements; one extent may be -1, to be worked out.
///
/// A split is kept where no element has to move: the split axis is the first (but for extents of 1) of the axes that are
/// merged or cut, and the devices' borders fall on whole indices. If the pieces are then not the balanced ones, the result
/// says so: it is [`Ragged`]. Other splits become one of the first axis that has enough indices, and every device gets what
/// it does not hold of its new range. Partial and Unknown pass. Inside a device nothing is copied
/// if the shard is contiguous.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[0_i64; 24], [4, 6], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(reshape(&x, &[2, 2, -1])?.layout().places(), [Sharded(0)]);
/// let x = Tensor::from_slice(&[0_i64; 18], [3, 6], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(reshape(&x, &[-1])?.layout().places(), [Ragged::place(0, [12, 6])]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another number of elements, [`ErrorKind::Argument`](crate::ErrorKind::Argument)
/// for several -1 or other negative extents, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn reshape(cx: &mut KernelCx, x: &LocalArray, dims: &[isize]) -> Result<LocalArray> {
    let _ = dims;
    let shape = cx.result_shape(0)?;
    cx.reshape(x, &shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use proptest::prelude::*;

    fn maps(from: &[usize], to: &[usize]) -> Vec<(usize, usize)> {
        kept(from, to).iter().map(|kept| (kept.axis, kept.to)).collect()
    }

    #[test]
    fn leading_axes_of_runs_keep_their_split() {
        assert_eq!(maps(&[4, 8], &[32]), [(0, 0)]);
        assert_eq!(maps(&[4, 8], &[1, 4, 1, 8]), [(0, 1), (1, 3)]);
        assert_eq!(maps(&[2, 3, 4, 5], &[2, 12, 5]), [(0, 0), (1, 1), (3, 2)]);
        assert_eq!(maps(&[1, 8], &[8]), [(1, 0)]);
        assert_eq!(maps(&[6, 4], &[4, 6]), [(0, 0)]);
        assert_eq!(maps(&[5, 0], &[5, 0, 2]), [(0, 0), (1, 1)]);
        assert_eq!(maps(&[0, 3], &[3, 0]), []);
        assert_eq!(maps(&[1], &[]), []);
    }

    #[test]
    fn all_mesh_axes_that_split_an_axis_count_together() {
        let check = |places: &[Place], dims: &[isize], want: &[&str]| {
            ask::check::<reshape>(
                &reshape { dims: dims.into() },
                &[2, 2],
                &[(DType::F32, &[8], places)],
                want,
            );
        };
        let (r, s0) = (Place::Replicated, Place::Sharded(0));
        // 8 over 2 is two rows of 4 each; over 4 it is half a row.
        check(&[s0, r], &[2, 4], &["R -> R", "S0 -> S0", "P -> P"]);
        check(&[s0, s0], &[2, 4], &["R -> R", "P -> P", "S0 -> S1 +permute of 8"]);
        check(&[s0, s0], &[1, 8], &["R -> R", "S0 -> S1", "P -> P"]);
        check(&[Place::Unknown, r], &[-1], &["R -> R", "S0 -> S0", "P -> P", "U -> U"]);
    }

    #[test]
    fn uneven_pieces_are_ragged_and_have_the_axis_for_themselves() {
        let check = |places: &[Place], want: &[&str]| {
            ask::check::<reshape>(
                &reshape { dims: [-1][..].into() },
                &[2, 2],
                &[(DType::F32, &[7, 8], places)],
                want,
            );
        };
        let (r, s0) = (Place::Replicated, Place::Sharded(0));
        check(&[s0, r], &["R -> R", "S0 -> Ragged(0, [32, 24])", "P -> P"]);
        check(&[s0, s0], &["R -> R", "P -> P", "S0 -> S0 +permute of 16"]);
        let ragged = Ragged::place(0, [2, 5]);
        check(
            &[ragged, r],
            &["R -> R", "S0 -> Ragged(0, [32, 24])", "Ragged(0, [2, 5]) -> Ragged(0, [16, 40])", "P -> P"],
        );
    }

    /// Whether cutting the flat run at the devices' borders cuts the new axis at whole indices with these sizes.
    fn sizes(kept: &Kept, extent: usize, ways: usize) -> Option<Vec<usize>> {
        balanced_sizes(extent, ways)
            .map(|size| {
                (size * kept.inner.0).is_multiple_of(kept.inner.1).then(|| size * kept.inner.0 / kept.inner.1)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn labels_say_the_sizes_that_devices_have(
            extents in proptest::collection::vec(1_usize..7, 1..4),
            cuts in proptest::collection::vec(1_usize..7, 0..3),
            ways in 1_usize..6,
            elsewhere in 1_usize..3,
        ) {
            let elements: usize = extents.iter().product();
            let mut to = cuts;
            let product: usize = to.iter().product();
            prop_assume!(elements.is_multiple_of(product));
            to.push(elements / product);
            for kept in kept(&extents, &to) {
                let extent = extents[kept.axis];
                let Some(place) = balanced(&kept, extent, ways, elsewhere) else { continue };
                let sizes = sizes(&kept, extent, ways * elsewhere);
                prop_assert!(sizes.is_some(), "{:?} -> {:?}: {place} cuts indices", extents, to);
                let all = ways * elsewhere;
                let label: Vec<usize> = match place {
                    Place::Sharded(axis) => {
                        prop_assert_eq!(usize::from(axis), kept.to);
                        balanced_sizes(to[kept.to], all).collect()
                    }
                    Place::Custom(custom) => {
                        prop_assert_eq!(elsewhere, 1);
                        let size = |part| custom.placement().ranges(to[kept.to], all, part).iter().map(|r| r.len()).sum();
                        (0..all).map(size).collect()
                    }
                    other => panic!("{other}"),
                };
                prop_assert_eq!(sizes.unwrap(), label);
            }
        }
    }
}
