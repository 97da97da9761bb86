//! Elements of an axis by index.

use crate::{check, row};
use sharding_core::backend::{Gather, LocalArray};
use sharding_core::op::{CaseOperand, Cases, Fill};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, pass_through_rows, replicated_rows};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Place, ReduceOp, Result, Shape, TensorMeta, sharding_rule,
};

/// Rows of taking along an axis of operand 0 by the indices of operand 1.
pub(crate) fn rows(cx: &RuleCx<'_>, axis: usize) -> Rows {
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    // The result has the indices' axes in the place of `axis`.
    let inserted = cx.ndim(1);
    pass_through_rows(cx, 0, &mut rows, |own| match own.cmp(&axis) {
        std::cmp::Ordering::Less => Some(own),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(own + inserted - 1),
    });
    pass_through_rows(cx, 1, &mut rows, |own| Some(axis + own));
    // Each index is found on one device; the others have 0 for it. That adds up, and only adds up: parts of another
    // combination on an earlier mesh axis do not commute with it.
    let others = cx.committed.iter().flat_map(|row| &row.results).filter_map(|place| place.reduce_op());
    let number = cx.operands.first().is_some_and(|x| x.meta.dtype != DType::Bool);
    if number && others.into_iter().all(|op| op == ReduceOp::Sum) {
        rows.add([sharded(axis), Place::Replicated], [Place::PARTIAL]);
    }
    let partial = Place::Partial(row::combination(cx));
    rows.add([partial, Place::Replicated], [partial]);
    rows
}

/// The meta of the result.
pub(crate) fn meta(x: (&str, &TensorMeta), indices: &TensorMeta, axis: usize) -> Result<TensorMeta> {
    check::indices("indices", indices)?;
    let (name, x) = x;
    if x.shape.extent(axis) == 0 && indices.shape.elements() > 0 {
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "axis {axis} of {name} has extent 0: there is nothing to take {} elements from",
                indices.shape
            ),
        )
        .with_fix(format!("pass a {name} with elements on axis {axis}, or no indices")));
    }
    let (before, after) = (x.shape.iter().take(axis), x.shape.iter().skip(axis + 1));
    let shape: Shape = before.chain(indices.shape.iter()).chain(after).copied().collect();
    Ok(TensorMeta::new(x.dtype, shape))
}

/// The local kernel. Indices are global; where the axis is split, those of other devices give 0.
pub(crate) fn take(
    cx: &mut KernelCx<'_>,
    x: &LocalArray,
    indices: &LocalArray,
    axis: usize,
) -> Result<LocalArray> {
    let bound = cx.operand(0)?.shape().extent(axis) as i64;
    let base =
        cx.operand_region(0)?.get(axis).and_then(|ranges| ranges.first()).map_or(0, |range| range.start);
    cx.gather(Gather { axis, base: base as i64, bound }, x, indices)
}

fn rule(cx: &RuleCx<'_>, axis: isize) -> Result<Rows> {
    Ok(rows(cx, check::operand_axis(cx, axis)?))
}

fn shape(x: &TensorMeta, indices: &TensorMeta, axis: isize) -> Result<TensorMeta> {
    meta(("x", x), indices, x.shape.axis(axis)?)
}

fn cases(cases: &mut Cases) {
    for (shape, indices, axis) in [
        (&[7, 5][..], &[4][..], 0),
        (&[3, 7, 2], &[4, 3], 1),
        (&[2, 9], &[5], -1),
        (&[8], &[], 0),
        (&[1, 4], &[2, 3], 0),
        (&[4, 0], &[3], 0),
        (&[3, 4], &[0], 1),
    ] {
        for dtype in [DType::F32, DType::I64] {
            let bound =
                shape.get(if axis < 0 { shape.len() - 1 } else { axis as usize }).copied().unwrap_or(1);
            let indices = CaseOperand::new(DType::I64, indices).with_fill(Fill::Below(bound));
            cases.add([CaseOperand::new(dtype, shape), indices], gather { axis });
        }
    }
}

/// The elements of `x` along `axis` (negative counts from the back) at `indices`: `[a.., n, b..]` and `[i..]` give
/// `[a.., i.., b..]`. Indices are i64 in `0..n`, by the global extent.
///
/// The same is called `index_select` in PyTorch (there for indices of one axis), `take` in NumPy and JAX, `gather` in MAX.
/// `gather` of PyTorch is another op, `take_along_axis` in NumPy and JAX: it has an index for each element of its result.
///
/// Splits of the other axes and of the indices are kept. If `axis` is split, each device takes what it holds and 0 for the
/// rest, and the result is Partial.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let whole = DeviceMapping::replicated(&mesh);
/// let x = Tensor::from_slice(&[10_i64, 11, 12, 20, 21, 22], [2, 3], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let y = gather(&x, &Tensor::from_slice(&[2_i64, 0], [2], &whole)?, -1)?;
/// assert_eq!(y.layout().places(), [Partial(ReduceOp::Sum)]);
/// assert_eq!(y.to_vec::<i64>()?, [12, 10, 22, 20]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for indices that are not i64, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for indices into nothing,
/// [`ErrorKind::Kernel`](crate::ErrorKind::Kernel) for an index out of range, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn gather(cx: &mut KernelCx, x: &LocalArray, indices: &LocalArray, axis: isize) -> Result<LocalArray> {
    let axis = x.shape().axis(axis)?;
    take(cx, x, indices, axis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn truth_values_have_no_parts_of_a_split_axis() {
        let place = &[Place::Replicated][..];
        let operands = [(DType::Bool, &[9, 4][..], place), (DType::I64, &[2], place)];
        let rows = ["R R -> R", "S0 R -> S0", "R S0 -> S1", "P R -> P"];
        ask::check::<gather>(&gather { axis: 1 }, &[2], &operands, &rows);
    }
}
