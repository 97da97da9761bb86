//! Tensors side by side along a new axis.

use super::unsqueeze::{new_axis, view, with_axis};
use crate::{check, row};
use sharding_core::backend::{IndexMap, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, replicated_rows};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Place, Result, Shape, TensorMeta, sharding_rule};

/// Every axis may be split, alike in all operands; the new one is whole. Parts of all of them together are parts of the
/// result; parts of one beside the whole of another are not.
fn rule(cx: &RuleCx<'_>, axis: isize) -> Result<Rows> {
    let Some(first) = cx.operands.first() else { return Ok(Rows::new()) };
    let axis = new_axis(&first.meta.shape, axis)?;
    let n = cx.operands.len();
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    for own in 0..cx.ndim(0) {
        let to = if own < axis { own } else { own + 1 };
        for place in std::iter::once(sharded(own)).chain((0..n).filter_map(|i| cx.carried(i, own))) {
            rows.add(std::iter::repeat_n(place, n), [place.on_axis(to)]);
        }
    }
    let partial = Place::Partial(row::combination(cx));
    rows.add(std::iter::repeat_n(partial, n), [partial]);
    Ok(rows)
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
/// A split that all tensors share is kept; the new axis is whole. Partial tensors stay so if all of them are.
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
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
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

    #[test]
    fn splits_are_shared_and_the_new_axis_is_whole() {
        let operands = [ask::f32s(&[2, 4]), ask::f32s(&[2, 4])];
        let rows = ["R R -> R", "S0 S0 -> S0", "S1 S1 -> S2", "P P -> P"];
        ask::check::<stack>(&stack { axis: 1 }, &[2], &operands, &rows);
    }
}
