//! Tensors one after the other along an axis.

use crate::{check, row};
use sharding_core::backend::{IndexMap, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, replicated_rows};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Place, Result, Shape, TensorMeta, sharding_rule};

/// Every other axis may be split, alike in all operands. The joined axis may not: the pieces of a device would come to lie
/// one after the other, while the whole has all of the first operand before the second.
fn rule(cx: &RuleCx<'_>, axis: isize) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let n = cx.operands.len();
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    for own in (0..cx.ndim(0)).filter(|own| *own != axis) {
        for place in std::iter::once(sharded(own)).chain((0..n).filter_map(|i| cx.carried(i, own))) {
            rows.add(std::iter::repeat_n(place, n), [place]);
        }
    }
    let partial = Place::Partial(row::combination(cx));
    rows.add(std::iter::repeat_n(partial, n), [partial]);
    Ok(rows)
}

fn shape(xs: &[TensorMeta], axis: isize) -> Result<TensorMeta> {
    let Some(first) = xs.first() else {
        return Err(Error::new(ErrorKind::Argument, "there is nothing to join: no tensor was passed")
            .with_fix("pass at least one tensor"));
    };
    let axis = first.shape.axis(axis)?;
    let mut extent = 0_usize;
    for (i, x) in xs.iter().enumerate() {
        check::same_dtype(("xs.0", first), (&format!("xs.{i}"), x))?;
        if x.shape.len() != first.shape.len() || x.shape.without(axis) != first.shape.without(axis) {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "xs.{i} {} differs from xs.0 {} on an axis other than the joined one, {axis}",
                    x.shape, first.shape
                ),
            )
            .with_fix("join tensors of equal extents elsewhere, or join another axis"));
        }
        extent = extent.checked_add(x.shape.extent(axis)).ok_or_else(|| {
            Error::new(ErrorKind::Overflow, format!("the joined extent of axis {axis} does not fit"))
        })?;
    }
    Ok(TensorMeta::new(first.dtype, first.shape.with_extent(axis, extent)))
}

fn cases(cases: &mut Cases) {
    for (shapes, axis) in [
        (&[&[4, 5][..], &[3, 5]][..], 0),
        (&[&[5, 2], &[5, 3], &[5, 1]], -1),
        (&[&[2, 3, 4], &[2, 1, 4]], 1),
        (&[&[3, 2]], 0),
        (&[&[0, 3], &[2, 3]], 0),
        (&[&[1, 4], &[1, 2]], 1),
    ] {
        let xs = shapes.iter().map(|shape| CaseOperand::new(DType::F32, *shape)).collect();
        cases.add_grouped([xs], concat { axis });
    }
}

/// The tensors one after the other along `axis` (negative counts from the back); equal shapes elsewhere.
///
/// A split of any other axis is kept. Splits of the joined axis are gathered first: a device would join pieces that do not
/// follow each other in the whole.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let columns = DeviceMapping::new(&mesh, [Sharded(1)])?;
/// let a = Tensor::from_slice(&[1_i64, 2], [1, 2], &columns)?;
/// let b = Tensor::from_slice(&[3_i64, 4, 5, 6], [2, 2], &columns)?;
/// let y = concat(&[a, b], 0)?;
/// assert_eq!(y.mapping(), &columns);
/// assert_eq!(y.to_vec::<i64>()?, [1, 2, 3, 4, 5, 6]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for no tensor, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for
/// shapes that differ elsewhere, [`ErrorKind::DType`](crate::ErrorKind::DType) for several dtypes,
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn concat(cx: &mut KernelCx, xs: &[&LocalArray], axis: isize) -> Result<LocalArray> {
    let shapes: Vec<Shape> = xs.iter().map(|x| x.shape().clone()).collect();
    let axis = shapes.first().map_or(Ok(0), |first| first.axis(axis))?;
    let map = IndexMap::concat(&shapes, axis)
        .ok_or_else(|| Error::new(ErrorKind::Kernel, format!("local shapes {shapes:?} do not join")))?;
    cx.copy(map, xs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn the_joined_axis_stays_whole() {
        let operands = [ask::f32s(&[2, 4]), ask::f32s(&[3, 4])];
        ask::check::<concat>(&concat { axis: 0 }, &[2], &operands, &["R R -> R", "S1 S1 -> S1", "P P -> P"]);
    }
}
