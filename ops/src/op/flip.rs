//! The elements backwards along some axes.

use crate::{exchanged, row};
use sharding_core::backend::{IndexMap, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Result, Shape, Shards, StageCx, TensorMeta, sharding_rule,
};
use smallvec::SmallVec;

/// For each axis whether it is turned around.
fn turned(shape: &Shape, axes: &[isize]) -> Result<SmallVec<[bool; 4]>> {
    let mut turned: SmallVec<[bool; 4]> = shape.iter().map(|_| false).collect();
    for axis in axes {
        let at = shape.axis(*axis)?;
        if let Some(slot) = turned.get_mut(at) {
            if *slot {
                return Err(Error::new(ErrorKind::Axis, format!("axis {at} is named twice in {axes:?}"))
                    .with_fix("name each axis once: turned around twice it is as before"));
            }
            *slot = true;
        }
    }
    Ok(turned)
}

/// Where the elements come from, in a shape of which these axes are turned around.
fn map(shape: &Shape, turned: &[bool]) -> IndexMap {
    let last = |(extent, turned): (&usize, &bool)| if *turned { extent.saturating_sub(1) } else { 0 };
    let starts: SmallVec<[usize; 4]> = shape.iter().zip(turned).map(last).collect();
    let steps: SmallVec<[isize; 4]> = turned.iter().map(|turned| if *turned { -1 } else { 1 }).collect();
    IndexMap::slice(shape, &starts, &steps, shape)
}

/// Axes that are not turned keep their split. One that is keeps its placement, and every device gets what it does not hold
/// of its new elements: of a balanced split almost all, of a placement that is its own mirror image nothing.
fn rule(cx: &RuleCx<'_>, axes: &[isize]) -> Result<Rows> {
    let Some(x) = cx.operands.first() else { return Ok(Rows::new()) };
    let turned = turned(&x.meta.shape, axes)?;
    let moves = |axis: usize| turned.get(axis) == Some(&true) && x.meta.shape.extent(axis) > 1;
    let mut rows = row::movement_rows(cx, |axis| (!moves(axis)).then_some(axis));
    let place = cx.place(0);
    if place.tensor_axis().is_some_and(moves) {
        exchanged::add_row(cx, &mut rows, [place], &[(map(&x.meta.shape, &turned), place)]);
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, axes: &[isize]) -> Result<TensorMeta> {
    turned(&x.shape, axes)?;
    Ok(x.clone())
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, axes: &[isize]) -> Result<Shards> {
    let shape = cx.operand(0)?.shape();
    cx.exchange(&map(shape, &turned(shape, axes)?), 0, std::slice::from_ref(x))
}

fn cases(cases: &mut Cases) {
    for (shape, axes) in [
        (&[7, 5][..], &[0][..]),
        (&[7, 5], &[-1]),
        (&[4, 6, 3], &[0, 2]),
        (&[1, 4], &[0]),
        (&[0, 3], &[0, 1]),
        (&[5], &[]),
    ] {
        for dtype in [DType::F32, DType::Bool] {
            cases.add([CaseOperand::new(dtype, shape)], flip { axes: axes.into() });
        }
    }
}

/// The elements of `x` in reverse order along each of `axes` (negative counts from the back).
///
/// Placements are kept. Along an axis that is turned and split, every device gets what it does not hold of its new elements;
/// nothing moves for a placement that is its own mirror image. On an explicit mesh axis, where no op communicates, such an
/// axis is to be gathered by hand.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5, 6], [3, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = flip(&x, &[0])?;
/// assert_eq!(y.mapping(), x.mapping());
/// assert_eq!(y.to_vec::<i64>()?, [5, 6, 3, 4, 1, 2]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there or is named twice, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn flip(cx: &mut KernelCx, x: &LocalArray, axes: &[isize]) -> Result<LocalArray> {
    let turned = turned(x.shape(), axes)?;
    if turned.iter().zip(x.shape().iter()).all(|(turned, extent)| !turned || *extent <= 1) {
        return Ok(x.clone());
    }
    cx.copy(map(x.shape(), &turned), &[x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::Place;
    use sharding_core::placement::Ragged;

    #[test]
    fn a_turned_axis_keeps_its_placement_and_moves() {
        let check = |place: Place, moved: &str| {
            let x: ask::Placed<'_> = (DType::F32, &[5, 3], &[place]);
            let args = flip { axes: [0][..].into() };
            ask::check::<flip>(&args, &[2], &[x], &["R -> R", "S1 -> S1", "P -> P", moved]);
        };
        // Rows 0, 1, 2 on the first device become 4, 3, 2: it holds row 2.
        check(Place::Sharded(0), "S0 -> S0 +permute of 24");
        check(Ragged::place(0, [0, 5]), "Ragged(0, [0, 5]) -> Ragged(0, [0, 5]) +permute of 0");
    }
}
