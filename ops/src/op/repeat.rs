//! Each element of an axis several times.

use super::reshape::{Kept, keep};
use super::tile::repeated;
use crate::{check, exchanged, row};
use sharding_core::backend::{IndexMap, LocalArray, Piece};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx, pass_through_rows, replicated_rows};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Place, Result, Scalar, Shape, Shards, StageCx, TensorMeta,
    sharding_rule,
};

/// So many elements of an axis are moved by themselves; where there are more, the operand is brought together first.
const MOST_ELEMENTS: usize = 1 << 10;

/// Where the elements come from; `None` for more than are moved.
fn map(shape: &Shape, times: usize, axis: usize) -> Option<IndexMap> {
    let (extent, mut strides) = (shape.extent(axis), shape.strides());
    let stride = strides.get(axis).copied()?;
    if let Some(own) = strides.get_mut(axis) {
        *own = 0;
    }
    let piece = |i: usize| Piece {
        operand: 0,
        into: shape
            .iter()
            .enumerate()
            .map(|(own, n)| if own == axis { i * times..(i + 1) * times } else { 0..*n })
            .collect(),
        offset: stride * i as isize,
        strides: strides.clone(),
    };
    (extent <= MOST_ELEMENTS).then(|| IndexMap {
        shape: shape.with_extent(axis, extent * times),
        pieces: (0..extent).map(piece).collect(),
        fill: Scalar::Int(0),
    })
}

/// Other axes keep their split. So does the axis itself: every device repeats its own elements, and where its pieces are then
/// not the balanced ones the result says so. Where no label can say it every device gets its balanced share.
fn rule(cx: &RuleCx<'_>, times: usize, axis: isize) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    for own in 0..cx.ndim(0) {
        if own == axis && times != 1 {
            keep(cx, &mut rows, &Kept { axis, to: axis, inner: (times, 1), run: axis..axis + 1 });
        } else {
            pass_through_rows(cx, 0, &mut rows, |other| (other == own).then_some(own));
        }
    }
    let partial = Place::Partial(row::combination(cx));
    rows.add([partial], [partial]);
    let place = cx.place(0);
    if place.tensor_axis() == Some(axis)
        && !rows.iter().any(|row| row.operands.first() == Some(&place))
        && let Some(map) = cx.operands.first().and_then(|x| map(&x.meta.shape, times, axis))
    {
        let to = exchanged::split_or_whole(cx, axis, 0, Some(axis));
        exchanged::add_row(cx, &mut rows, [place], &[(map, to)]);
    }
    Ok(rows)
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, times: usize, axis: isize) -> Result<Shards> {
    let shape = cx.operand(0)?.shape();
    let map = map(shape, times, shape.axis(axis)?);
    let map =
        map.ok_or_else(|| Error::new(ErrorKind::Kernel, "too many elements to be moved by themselves"))?;
    cx.exchange(&map, 0, std::slice::from_ref(x))
}

fn shape(x: &TensorMeta, times: usize, axis: isize) -> Result<TensorMeta> {
    let axis = x.shape.axis(axis)?;
    let extent = x.shape.extent(axis).checked_mul(times).ok_or_else(|| {
        Error::new(ErrorKind::Overflow, format!("axis {axis} of {} times {times} does not fit", x.shape))
            .with_fix("repeat it less often")
    })?;
    Ok(TensorMeta::new(x.dtype, Shape::new(x.shape.with_extent(axis, extent))?))
}

fn cases(cases: &mut Cases) {
    for (shape, times, axis) in [
        (&[7, 5][..], 2, 0),
        (&[7, 5], 3, -1),
        (&[4, 6, 2], 2, 1),
        (&[1, 4], 3, 0),
        (&[4, 3], 0, 0),
        (&[0, 3], 2, 0),
        (&[6], 1, 0),
    ] {
        for dtype in [DType::F32, DType::I64] {
            cases.add([CaseOperand::new(dtype, shape)], repeat { times, axis });
        }
    }
}

/// Each element of `axis` (negative counts from the back) `times` times, one behind the other: `repeat` of NumPy,
/// `repeat_interleave` of PyTorch and MAX. [`tile`](fn@crate::tile) repeats the whole.
///
/// Nothing moves between devices: each repeats its own elements. Where its pieces are then not the balanced ones, the result
/// says so: it is [`Ragged`](crate::Ragged). Of two kinds of split of the axis itself no label could say it: one by several mesh
/// axes that is uneven, and an [`Interleaved`](crate::Interleaved) one, whose ranges would no longer be shares of its parts.
/// There every device gets its balanced share, and only what it does not hold moves.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = repeat(&x, 2, 0)?;
/// assert_eq!(y.layout().places(), [Ragged::place(0, [4, 2])]);
/// assert_eq!(y.to_vec::<i64>()?, [1, 1, 2, 2, 3, 3]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, [`ErrorKind::Overflow`](crate::ErrorKind::Overflow)
/// for too many elements, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn repeat(cx: &mut KernelCx, x: &LocalArray, times: usize, axis: isize) -> Result<LocalArray> {
    let axis = x.shape().axis(axis)?;
    if times == 1 { Ok(x.clone()) } else { repeated(cx, x, axis, axis + 1, times) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::placement::{Interleaved, Ragged};

    #[test]
    fn every_device_repeats_its_own_elements() {
        let check = |extent: usize, place: Place, want: &[&str]| {
            let x: ask::Placed<'_> = (DType::F32, &[extent, 3], &[place]);
            ask::check::<repeat>(&repeat { times: 2, axis: 0 }, &[2], &[x], want);
        };
        check(4, Place::Sharded(0), &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P"]);
        check(5, Place::Sharded(0), &["R -> R", "S0 -> Ragged(0, [6, 4])", "S1 -> S1", "P -> P"]);
        let ragged = "Ragged(0, [1, 3]) -> Ragged(0, [2, 6])";
        check(4, Ragged::place(0, [1, 3]), &["R -> R", "S0 -> S0", ragged, "S1 -> S1", "P -> P"]);
        // Its ranges are no longer shares of two parts: rows 0 and 2 are on the first device, which gets rows 0 and 1.
        let moved = "Interleaved(0, [2, 2]) -> S0 +permute of 12";
        check(4, Interleaved::place(0, [2, 2]), &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P", moved]);
    }

    #[test]
    fn of_an_uneven_split_by_two_mesh_axes_every_device_gets_its_share() {
        let x: ask::Placed<'_> = (DType::F32, &[10, 3], &[Place::Sharded(0), Place::Sharded(0)]);
        let rows = ask::rows::<repeat>(&repeat { times: 2, axis: 0 }, &[2, 2], &[x]).unwrap();
        // One mesh axis by itself: five rows each, before and after.
        assert_eq!(rows, ["R -> R", "S1 -> S1", "P -> P", "S0 -> S0 +permute of 0"]);
    }
}
