//! A larger shape by repeating elements.

use crate::row;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx, elementwise_rows, replicated_rows};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Place, Result, Shape, TensorMeta, broadcast, sharding_rule,
};

/// Axes that keep their extent keep their split. One of extent 1 that is repeated must be whole: if it is split, one
/// device alone has what all need. Partial passes: every copy of an element is the combination of the copies of its parts.
fn rule(cx: &RuleCx<'_>, _dims: &[usize]) -> Result<Rows> {
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    elementwise_rows(cx, &mut rows);
    let partial = Place::Partial(row::combination(cx));
    rows.add([partial], [partial]);
    if cx.place(0) == Place::Unknown {
        rows.add([Place::Unknown], [Place::Unknown]);
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, dims: &[usize]) -> Result<TensorMeta> {
    let to = Shape::new(dims)?;
    if broadcast(&x.shape, &to).is_none_or(|both| both != to) {
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "{} does not broadcast to {to}: aligned at the last axis, each extent must be 1 or stay as it is",
                x.shape
            ),
        )
        .with_fix("reshape(&x, ..) or unsqueeze(&x, ..) so that the axes line up"));
    }
    Ok(TensorMeta::new(x.dtype, to))
}

fn cases(cases: &mut Cases) {
    for (shape, dims) in [
        (&[7, 1][..], &[7, 4][..]),
        (&[1, 5], &[3, 5]),
        (&[5], &[2, 3, 5]),
        (&[4, 1, 2], &[4, 3, 2]),
        (&[], &[2, 3]),
        (&[3, 4], &[3, 4]),
        (&[1, 6], &[1, 6]),
        (&[1, 4], &[0, 4]),
        (&[0, 1], &[0, 3]),
    ] {
        for dtype in [DType::F32, DType::Bool] {
            cases.add([CaseOperand::new(dtype, shape)], broadcast_to { dims: dims.into() });
        }
    }
}

/// `x` repeated to the shape `dims`: aligned at the last axis, extents of 1 and axes that `x` lacks take any extent.
///
/// Splits of axes that keep their extent are kept, Partial and Unknown pass. An axis of extent 1 that is split and repeated
/// is gathered first. Inside a device nothing is copied: the copies are one element in memory.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3], [3, 1], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = broadcast_to(&x, &[3, 2])?;
/// assert_eq!(y.layout().places(), [Sharded(0)]);
/// assert_eq!(y.to_vec::<i64>()?, [1, 1, 2, 2, 3, 3]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a shape that `x` does not broadcast to, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn broadcast_to(cx: &mut KernelCx, x: &LocalArray, dims: &[usize]) -> Result<LocalArray> {
    let _ = dims;
    let shape = cx.result_shape(0)?;
    x.broadcast_to(&shape).ok_or_else(|| {
        Error::new(ErrorKind::Kernel, format!("the local shape {} does not broadcast to {shape}", x.shape()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::placement::Ragged;

    fn check(shape: &[usize], place: Place, dims: &[usize], want: &[&str]) {
        let args = broadcast_to { dims: dims.into() };
        ask::check::<broadcast_to>(&args, &[2], &[(DType::F32, shape, &[place])], want);
    }

    #[test]
    fn repeated_axes_stay_whole_and_others_keep_their_split() {
        check(&[4, 1], Place::Replicated, &[3, 4, 5], &["R -> R", "S0 -> S1", "P -> P"]);
        check(&[1, 4], Place::Sharded(0), &[1, 4], &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P"]);
        check(&[], Place::Unknown, &[2], &["R -> R", "P -> P", "U -> U"]);
        let ragged = Ragged::place(0, [1, 3]);
        let rows = ["R -> R", "S0 -> S1", "Ragged(0, [1, 3]) -> Ragged(1, [1, 3])", "P -> P"];
        check(&[4], ragged, &[2, 4], &rows);
    }

    #[test]
    fn extents_other_than_one_do_not_change() {
        for (from, to) in [(&[2, 4][..], &[3, 4][..]), (&[4, 8], &[8]), (&[4], &[1]), (&[2], &[0])] {
            let error = shape(&TensorMeta::new(DType::F32, from), to).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
        }
    }
}
