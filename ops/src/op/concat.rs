//! Tensors one after the other along an axis.

use crate::check;
use crate::joined::{self, Join};
use sharding_core::backend::{IndexMap, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Result, Shape, Shards, StageCx, TensorMeta, sharding_rule,
};

fn rule(cx: &RuleCx<'_>, axis: isize) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    let join = Join { along: Some(axis), to: |own: usize| own };
    Ok(joined::rows(cx, &join, || map(cx.operands.iter().map(|x| &x.meta.shape), axis)))
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

fn map<'a>(shapes: impl Iterator<Item = &'a Shape>, axis: usize) -> Option<IndexMap> {
    IndexMap::concat(&shapes.cloned().collect::<Vec<_>>(), axis)
}

fn stages(cx: &mut StageCx<'_>, xs: &[Shards], axis: isize) -> Result<Shards> {
    let layouts = (0..xs.len()).map(|i| cx.operand(i)).collect::<Result<Vec<_>>>()?;
    let axis = layouts.first().map_or(Ok(0), |first| first.shape().axis(axis))?;
    let map = map(layouts.iter().map(|layout| layout.shape()), axis)
        .ok_or_else(|| Error::new(ErrorKind::Kernel, "the operands do not join"))?;
    cx.exchange(&map, 0, xs)
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
/// A split of any other axis that all tensors share is kept. So is one of the joined axis, and where the tensors lie otherwise
/// the result is split as one of them: there every device gets what it does not hold of its piece. On an explicit mesh axis,
/// where no op communicates, the operands are to be brought together by hand.
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
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
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
    use sharding_core::Place;

    #[test]
    fn along_the_joined_axis_elements_change_their_device() {
        let whole = [ask::f32s(&[2, 4]), ask::f32s(&[3, 4])];
        let mut rows = vec!["R R -> R", "S1 S1 -> S1", "P P -> P"];
        ask::check::<concat>(&concat { axis: 0 }, &[2], &whole, &rows);
        // Device 0 gets rows 0..3: it holds row 0 of the first and rows 0 and 1 of the second, and lacks row 1.
        let split: [ask::Placed<'_>; 2] =
            [(DType::F32, &[2, 4], &[Place::Sharded(0)]), (DType::F32, &[3, 4], &[Place::Sharded(0)])];
        rows.push("S0 S0 -> S0 +permute of 16");
        ask::check::<concat>(&concat { axis: 0 }, &[2], &split, &rows);
        // A cache that grows by a few rows that all devices have: only the border moves.
        let cache: [ask::Placed<'_>; 2] =
            [(DType::F32, &[1000, 4], &[Place::Sharded(0)]), (DType::F32, &[2, 4], &[Place::Replicated])];
        rows[3] = "S0 R -> S0 +permute of 16";
        ask::check::<concat>(&concat { axis: 0 }, &[2], &cache, &rows);
    }

    #[test]
    fn of_tensors_that_lie_otherwise_a_device_gets_what_it_lacks() {
        let mixed: [ask::Placed<'_>; 2] =
            [(DType::F32, &[4, 4], &[Place::Sharded(1)]), (DType::F32, &[4, 4], &[Place::Sharded(0)])];
        // Columns 0, 1: a quarter of the second tensor is elsewhere. Rows 0..4 are the first tensor: half of it is.
        let rows = [
            "R R -> R",
            "S1 S1 -> S1",
            "P P -> P",
            "S1 S0 -> S1 +permute of 16",
            "S1 S0 -> S0 +permute of 32",
        ];
        ask::check::<concat>(&concat { axis: 0 }, &[2], &mixed, &rows);
    }
}
