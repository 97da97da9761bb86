//! The elements moved along an axis, around its end.

use crate::{check, exchanged, row};
use sharding_core::backend::{IndexMap, LocalArray, Piece};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Result, Scalar, Shape, Shards, StageCx, TensorMeta, sharding_rule};

/// By how many indices, forward.
fn forward(shift: isize, extent: usize) -> usize {
    // Extents are at most `isize::MAX`; see `Shape::new`.
    if extent == 0 { 0 } else { shift.rem_euclid(extent as isize).unsigned_abs() }
}

/// Where the elements come from: the last `by` of the axis, then the others.
fn map(shape: &Shape, axis: usize, by: usize) -> IndexMap {
    let (extent, strides) = (shape.extent(axis), shape.strides());
    let stride = strides.get(axis).copied().unwrap_or(0);
    let piece = |into: std::ops::Range<usize>, from: usize| Piece {
        operand: 0,
        into: shape
            .iter()
            .enumerate()
            .map(|(own, n)| if own == axis { into.clone() } else { 0..*n })
            .collect(),
        offset: stride * from as isize,
        strides: strides.clone(),
    };
    let pieces = vec![piece(0..by, extent - by), piece(by..extent, 0)];
    IndexMap { shape: shape.clone(), pieces, fill: Scalar::Int(0) }
}

/// Other axes keep their split. The axis itself keeps its placement, and every device gets what comes over its border.
fn rule(cx: &RuleCx<'_>, shift: isize, axis: isize) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let Some(x) = cx.operands.first() else { return Ok(Rows::new()) };
    let by = forward(shift, x.meta.shape.extent(axis));
    let mut rows = row::movement_rows(cx, |own| (own != axis || by == 0).then_some(own));
    let place = cx.place(0);
    if by > 0 && place.tensor_axis() == Some(axis) {
        exchanged::add_row(cx, &mut rows, [place], &[(map(&x.meta.shape, axis, by), place)]);
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, _shift: isize, axis: isize) -> Result<TensorMeta> {
    x.shape.axis(axis)?;
    Ok(x.clone())
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, shift: isize, axis: isize) -> Result<Shards> {
    let shape = cx.operand(0)?.shape();
    let axis = shape.axis(axis)?;
    cx.exchange(&map(shape, axis, forward(shift, shape.extent(axis))), 0, std::slice::from_ref(x))
}

fn cases(cases: &mut Cases) {
    for (shape, shift, axis) in [
        (&[7, 5][..], 2, 0),
        (&[7, 5], -1, 1),
        (&[4, 6, 3], 9, -2),
        (&[4, 6], 12, 1),
        (&[1, 4], 3, 0),
        (&[0, 3], 1, 0),
    ] {
        for dtype in [DType::F32, DType::I64] {
            cases.add([CaseOperand::new(dtype, shape)], roll { shift, axis });
        }
    }
}

/// The elements of `x` moved by `shift` indices along `axis` (negative counts from the back): what leaves at the end comes in
/// at the start, as `roll` of NumPy. A negative shift moves towards the start.
///
/// Placements are kept. Along a split axis every device gets what it does not hold of its new elements, which are few for a
/// small shift. On an explicit mesh axis, where no op communicates, the axis is to be gathered by hand.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5], [5], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = roll(&x, 2, 0)?;
/// assert_eq!(y.mapping(), x.mapping());
/// assert_eq!(y.to_vec::<i64>()?, [4, 5, 1, 2, 3]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn roll(cx: &mut KernelCx, x: &LocalArray, shift: isize, axis: isize) -> Result<LocalArray> {
    let global = cx.operand(0)?.shape();
    let axis = global.axis(axis)?;
    // An axis that is not whole here does not move.
    match forward(shift, global.extent(axis)) {
        0 => Ok(x.clone()),
        by => cx.copy(map(x.shape(), axis, by), &[x]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::Place;
    use sharding_core::placement::Ragged;

    #[test]
    fn only_what_crosses_a_border_moves() {
        let check = |place: Place, shift: isize, rows: &[&str]| {
            let x: ask::Placed<'_> = (DType::F32, &[8, 3], &[place]);
            ask::check::<roll>(&roll { shift, axis: 0 }, &[2], &[x], rows);
        };
        let with = |moved| ["R -> R", "S1 -> S1", "P -> P", moved];
        check(Place::Sharded(0), 1, &with("S0 -> S0 +permute of 12"));
        check(Place::Sharded(0), -1, &with("S0 -> S0 +permute of 12"));
        check(Place::Sharded(0), 4, &with("S0 -> S0 +permute of 48"));
        check(Ragged::place(0, [2, 6]), 1, &with("Ragged(0, [2, 6]) -> Ragged(0, [2, 6]) +permute of 12"));
        check(Place::Sharded(0), 16, &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P"]);
    }
}
