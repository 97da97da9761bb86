//! Tensors side by side along a new axis.

use super::unsqueeze::{new_axis, view, with_axis};
use crate::check;
use crate::joined::{self, Join};
use sharding_core::backend::{IndexMap, LocalArray, Piece};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Result, Scalar, Shape, Shards, StageCx, TensorMeta, sharding_rule,
};

fn rule(cx: &RuleCx<'_>, axis: isize) -> Result<Rows> {
    let Some(first) = cx.operands.first() else { return Ok(Rows::new()) };
    let axis = new_axis(&first.meta.shape, axis)?;
    let join = Join { along: None, to: |own: usize| if own < axis { own } else { own + 1 } };
    Ok(joined::rows(cx, &join, || Some(map(&first.meta.shape, cx.operands.len(), axis))))
}

/// Where the elements come from: index `i` of the new axis is operand `i`.
fn map(shape: &Shape, n: usize, axis: usize) -> IndexMap {
    let result = with_axis(shape, axis, n);
    let mut strides = shape.strides();
    // One index of the new axis is one operand: there are no steps along it.
    strides.insert(axis, 0);
    let piece = |operand: usize| {
        let range =
            |(own, extent): (usize, &usize)| if own == axis { operand..operand + 1 } else { 0..*extent };
        let into = result.iter().enumerate().map(range).collect();
        Piece { operand, into, offset: 0, strides: strides.clone() }
    };
    let pieces = (0..n).map(piece).collect();
    IndexMap { shape: result, pieces, fill: Scalar::Int(0) }
}

fn stages(cx: &mut StageCx<'_>, xs: &[Shards], axis: isize) -> Result<Shards> {
    let shape = cx.operand(0)?.shape();
    cx.exchange(&map(shape, xs.len(), new_axis(shape, axis)?), 0, xs)
}

fn shape(xs: &[TensorMeta], axis: isize) -> Result<TensorMeta> {
    let Some(first) = xs.first() else {
        return Err(Error::new(ErrorKind::Argument, "there is nothing to stack: no tensor was passed")
            .with_fix("pass at least one tensor"));
    };
    for (i, x) in xs.iter().enumerate() {
        check::same_dtype(("xs.0", first), (&format!("xs.{i}"), x))?;
        if x.shape != first.shape {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "xs.{i} {} differs from xs.0 {}; stacked tensors have one shape",
                    x.shape, first.shape
                ),
            )
            .with_fix("broadcast_to(..) one shape first, or concat(..) along an axis that is there"));
        }
    }
    let axis = new_axis(&first.shape, axis)?;
    Ok(TensorMeta::new(first.dtype, Shape::new(with_axis(&first.shape, axis, xs.len()))?))
}

fn cases(cases: &mut Cases) {
    for (shape, n, axis) in [
        (&[4, 5][..], 2, 0),
        (&[4, 5], 3, 1),
        (&[4, 5], 2, -1),
        (&[7], 1, 0),
        (&[], 3, 0),
        (&[0, 3], 2, 1),
        (&[1, 4], 2, -3),
    ] {
        for dtype in [DType::F32, DType::I64] {
            cases.add_grouped([vec![CaseOperand::new(dtype, shape); n]], stack { axis });
        }
    }
}

/// Tensors of one shape side by side: index `i` of the new axis, which has the number `axis` in the result (negative counts
/// from the back of the result), is `xs[i]`.
///
/// A split that all tensors share is kept; the new axis is whole. Where they lie otherwise the result is split as one of them,
/// and every device gets what it does not hold of its piece. Partial tensors stay so if all of them are. On an explicit mesh
/// axis, where no op communicates, tensors are to be brought together by hand.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let split = DeviceMapping::new(&mesh, [Sharded(0)])?;
/// let a = Tensor::from_slice(&[1_i64, 2, 3], [3], &split)?;
/// let b = Tensor::from_slice(&[4_i64, 5, 6], [3], &split)?;
/// let y = stack(&[a, b], -1)?;
/// assert_eq!((y.shape().to_vec(), y.mapping()), (vec![3, 2], &split));
/// assert_eq!(y.to_vec::<i64>()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for no tensor, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for
/// several shapes, [`ErrorKind::DType`](crate::ErrorKind::DType) for several dtypes,
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for a number that the new axis cannot have, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn stack(cx: &mut KernelCx, xs: &[&LocalArray], axis: isize) -> Result<LocalArray> {
    let axis = xs.first().map_or(Ok(0), |first| new_axis(first.shape(), axis))?;
    let views = xs.iter().map(|x| view(x, axis)).collect::<Result<Vec<_>>>()?;
    let shapes: Vec<Shape> = views.iter().map(|x| x.shape().clone()).collect();
    let map = IndexMap::concat(&shapes, axis)
        .ok_or_else(|| Error::new(ErrorKind::Kernel, format!("local shapes {shapes:?} do not stack")))?;
    cx.copy(map, &views.iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::Place;
    use sharding_core::placement::Ragged;

    #[test]
    fn splits_are_shared_and_the_new_axis_is_whole() {
        let operands = [ask::f32s(&[2, 4]), ask::f32s(&[2, 4])];
        let rows = ["R R -> R", "S0 S0 -> S0", "S1 S1 -> S2", "P P -> P"];
        ask::check::<stack>(&stack { axis: 1 }, &[2], &operands, &rows);
    }
    #[test]
    fn of_tensors_that_lie_otherwise_a_device_gets_what_it_lacks() {
        let check = |a: Place, b: Place, moved: &[&str]| {
            let xs: [ask::Placed<'_>; 2] = [(DType::F32, &[4, 6], &[a]), (DType::F32, &[4, 6], &[b])];
            let rows = [&["R R -> R", "S0 S0 -> S0", "S1 S1 -> S2", "P P -> P"], moved].concat();
            ask::check::<stack>(&stack { axis: 1 }, &[2], &xs, &rows);
        };
        let (rows, columns) = (Place::Sharded(0), Place::Sharded(1));
        // Two rows of three columns are elsewhere, whichever tensor moves.
        check(rows, columns, &["S0 S1 -> S0 +permute of 24", "S0 S1 -> S2 +permute of 24"]);
        // What all have, or share but for free, needs no exchange.
        check(rows, Place::Replicated, &[]);
        // What is to be combined is combined in pieces.
        check(rows, Place::PARTIAL, &[]);
        let uneven = Ragged::place(0, [1, 3]);
        let xs: [ask::Placed<'_>; 2] = [(DType::F32, &[4, 6], &[rows]), (DType::F32, &[4, 6], &[uneven])];
        let got = ask::rows::<stack>(&stack { axis: 0 }, &[2], &xs).unwrap();
        let moved: Vec<&str> = got.iter().filter(|row| row.contains('+')).map(String::as_str).collect();
        assert_eq!(
            moved,
            [
                "S0 Ragged(0, [1, 3]) -> S1 +permute of 24",
                "S0 Ragged(0, [1, 3]) -> Ragged(1, [1, 3]) +permute of 24"
            ]
        );
    }
}
