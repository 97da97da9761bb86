//! A tensor cut along an axis.

use crate::split_sizes::SplitSizes;
use crate::{check, exchanged, row};
use sharding_core::backend::{IndexMap, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::{Ranges, sharded};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::split::balanced;
use sharding_core::{DType, KernelCx, Place, Result, Shape, Shards, StageCx, TensorMeta, sharding_rule};
use smallvec::SmallVec;
use std::iter::repeat_n;
use std::ops::Range;

/// Rows of cutting `axis` of operand 0 in pieces of these sizes.
///
/// A placement that gives every device its balanced share of every piece (fused weights that are `Interleaved`) leaves each
/// piece Sharded where it is. Else the borders of pieces and of devices are others, and elements change their device: of
/// each piece every device gets its share, or all of it where that is too little to share.
pub(crate) fn rows(cx: &RuleCx<'_>, axis: usize, sizes: &[usize]) -> Rows {
    let mut rows = row::movement_rows(cx, |own| (own != axis || sizes.len() == 1).then_some(own));
    if sizes.len() > 1
        && let Some(place) = cx.carried(0, axis)
        && is_share_of_each(place, cx.ways(), sizes)
    {
        rows.add([place], repeat_n(sharded(axis), sizes.len()));
    } else if let Some(x) = cx.operands.first()
        && (2..=exchanged::MOST_RESULTS).contains(&sizes.len())
        && cx.place(0).tensor_axis() == Some(axis)
    {
        let place = |i: usize| exchanged::split_or_whole(cx, axis, i, Some(axis));
        let results: Vec<_> =
            maps(&x.meta.shape, axis, sizes).enumerate().map(|(i, map)| (map, place(i))).collect();
        exchanged::add_row(cx, &mut rows, [cx.place(0)], &results);
    }
    rows
}

/// Whether every device holds its balanced share of every piece, one piece after the other.
fn is_share_of_each(place: Place, ways: usize, sizes: &[usize]) -> bool {
    let Place::Custom(custom) = place else { return false };
    let extent = sizes.iter().sum();
    (0..ways).all(|part| {
        let mut start = 0;
        let shares = sizes.iter().map(|size| {
            let share = balanced(*size, ways, part);
            start += size;
            start - size + share.start..start - size + share.end
        });
        joined(shares) == joined(custom.placement().ranges(extent, ways, part))
    })
}

/// Ranges without empty ones, neighbours joined: equal for equal indices in equal order.
fn joined(ranges: impl IntoIterator<Item = Range<usize>>) -> Ranges {
    let mut joined = Ranges::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// The pieces, by global indices.
fn maps<'a>(shape: &'a Shape, axis: usize, sizes: &'a [usize]) -> impl Iterator<Item = IndexMap> + 'a {
    let ones: SmallVec<[isize; 4]> = shape.iter().map(|_| 1).collect();
    let mut starts: SmallVec<[usize; 4]> = shape.iter().map(|_| 0).collect();
    sizes.iter().map(move |size| {
        let map = IndexMap::slice(shape, &starts, &ones, &shape.with_extent(axis, *size));
        if let Some(start) = starts.get_mut(axis) {
            *start += size;
        }
        map
    })
}

/// Elements change their device.
pub(crate) fn exchange(
    cx: &mut StageCx<'_>,
    x: &Shards,
    axis: usize,
    sizes: &[usize],
) -> Result<Vec<Shards>> {
    let shape = cx.operand(0)?.shape();
    let maps = maps(shape, axis, sizes).enumerate();
    maps.map(|(i, map)| cx.exchange(&map, i, std::slice::from_ref(x))).collect()
}

/// The metas of the pieces.
pub(crate) fn metas(x: &TensorMeta, axis: usize, sizes: &[usize]) -> Vec<TensorMeta> {
    sizes.iter().map(|size| TensorMeta::new(x.dtype, x.shape.with_extent(axis, *size))).collect()
}

/// The local kernel: views, each of this device's share of a piece.
pub(crate) fn cut(cx: &KernelCx<'_>, x: &LocalArray, axis: usize, pieces: usize) -> Result<Vec<LocalArray>> {
    let mut start = 0;
    let piece = |i: usize| {
        let len = cx.result_shape(i)?.extent(axis);
        start += len;
        Ok(x.slice(axis, start - len, len))
    };
    (0..pieces).map(piece).collect()
}

fn rule(cx: &RuleCx<'_>, sizes: SplitSizes, axis: isize) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    Ok(rows(cx, axis, &sizes.of(axis, cx.extent(0, axis))?))
}

fn shape(x: &TensorMeta, sizes: SplitSizes, axis: isize) -> Result<Vec<TensorMeta>> {
    let axis = x.shape.axis(axis)?;
    Ok(metas(x, axis, &sizes.of(axis, x.shape.extent(axis))?))
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, sizes: SplitSizes, axis: isize) -> Result<Vec<Shards>> {
    let shape = cx.operand(0)?.shape();
    let axis = shape.axis(axis)?;
    exchange(cx, x, axis, &sizes.of(axis, shape.extent(axis))?)
}

fn cases(cases: &mut Cases) {
    let sizes = |sizes: &[usize]| SplitSizes::from(sizes);
    for (shape, sizes, axis) in [
        (&[7, 5][..], SplitSizes::Each(3), 0),
        (&[4, 6], sizes(&[2, 4]), 1),
        (&[4, 6], sizes(&[1, 0, 5]), -1),
        (&[3, 8, 2], SplitSizes::Each(4), 1),
        (&[5, 4], SplitSizes::Each(9), 0),
        (&[0, 4], SplitSizes::Each(2), 0),
        (&[1, 3], SplitSizes::Each(1), 1),
        (&[0], sizes(&[0, 0]), 0),
    ] {
        for dtype in [DType::F32, DType::Bool] {
            cases.add([CaseOperand::new(dtype, shape)], split { sizes: sizes.clone(), axis });
        }
    }
}

/// The pieces of `x` along `axis` (negative counts from the back), in order: of the sizes given, or all of one size and the
/// last one smaller if that does not divide; see [`SplitSizes`]. Inside a device nothing is copied.
///
/// Splits of the other axes are kept. If `axis` itself is split, every device gets its share of each piece, and only what it
/// does not hold moves; a piece that is too short to share goes to all devices. Where every device holds its
/// share of every piece, as of fused weights that are [`Interleaved`](crate::Interleaved) in these parts, each piece stays
/// where it is and is Sharded.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5, 6], [2, 3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let pieces = split(&x, [1, 2].into(), 1)?;
/// assert_eq!(pieces[1].mapping(), x.mapping());
/// assert_eq!(pieces[1].to_vec::<i64>()?, [2, 3, 5, 6]);
/// assert_eq!(x.split(2, -1)?.len(), 2);
///
/// // The gate and the up projection of an MLP in one weight: nothing moves.
/// let fused = full([4, 8], 1.0, DType::F32, &DeviceMapping::new(&mesh, [Interleaved::place(1, [4, 4])])?)?;
/// let pieces = auto_reshard(Policy::raise(), || split(&fused, [4, 4].into(), 1))?;
/// assert_eq!(pieces[0].layout().places(), [Sharded(1)]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there,
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for sizes that do not add up to its extent or a size of 0 for all,
/// else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn split(cx: &mut KernelCx, x: &LocalArray, sizes: SplitSizes, axis: isize) -> Result<Vec<LocalArray>> {
    let shape = cx.operand(0)?.shape();
    let axis = shape.axis(axis)?;
    cut(cx, x, axis, sizes.of(axis, shape.extent(axis))?.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::placement::{Interleaved, Ragged};

    fn check(place: Place, sizes: &[usize], want: &[&str]) {
        let args = split { sizes: sizes.into(), axis: 1 };
        ask::check::<split>(&args, &[2], &[(DType::F32, &[4, 8], &[place])], want);
    }

    #[test]
    fn the_axis_that_is_cut_stays_whole() {
        check(Place::Replicated, &[3, 5], &["R -> R R", "S0 -> S0 S0", "P -> P P"]);
        check(Place::Sharded(1), &[8], &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P"]);
    }

    #[test]
    fn of_a_split_axis_every_device_gets_its_share_of_each_piece() {
        let rows = |moved| ["R -> R R", "S0 -> S0 S0", "P -> P P", moved];
        // Columns 0, 1 and 3, 4, 5 on the first device, which holds 0 to 3; 2 and 6, 7 on the other.
        let staged = "S1 -> S1 S1 +permute of 16 +permute of 32";
        check(Place::Sharded(1), &[3, 5], &rows(staged));
        let staged = "Ragged(1, [3, 5]) -> S1 S1 +permute of 16 +permute of 48";
        check(Ragged::place(1, [3, 5]), &[3, 5], &rows(staged));
        // One column is too little to share.
        check(Place::Sharded(1), &[1, 7], &rows("S1 -> R S1 +permute of 16 +permute of 16"));
        let many = split { sizes: SplitSizes::Each(1), axis: 0 };
        let x: ask::Placed<'_> = (DType::F32, &[exchanged::MOST_RESULTS + 1], &[Place::Sharded(0)]);
        assert_eq!(ask::rows::<split>(&many, &[2], &[x]).unwrap().len(), 2);
    }

    #[test]
    fn a_share_of_every_piece_stays_where_it_is() {
        let fused = |parts: &[usize]| Interleaved::place(1, parts);
        let whole = ["R -> R R", "S0 -> S0 S0", "P -> P P"];
        let shared = |row: &'static str| [&whole[..], &[row]].concat();
        check(fused(&[4, 4]), &[4, 4], &shared("Interleaved(1, [4, 4]) -> S1 S1"));
        check(fused(&[3, 5]), &[3, 5], &shared("Interleaved(1, [3, 5]) -> S1 S1"));
        check(
            fused(&[4, 4]),
            &[3, 5],
            &shared("Interleaved(1, [4, 4]) -> S1 S1 +permute of 0 +permute of 16"),
        );
        check(
            fused(&[2, 2, 4]),
            &[4, 4],
            &shared("Interleaved(1, [2, 2, 4]) -> S1 S1 +permute of 16 +permute of 0"),
        );
    }
}
