//! A tensor axis of extent 1 dropped.

use crate::{check, row};
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Result, TensorMeta, sharding_rule};
use std::cmp::Ordering;

/// The dropped axis must be whole: if it is split, one device holds everything and the others nothing, which no placement
/// of the other axes says.
fn rule(cx: &RuleCx<'_>, axis: isize) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    Ok(row::movement_rows(cx, |own| match own.cmp(&axis) {
        Ordering::Less => Some(own),
        Ordering::Equal => None,
        Ordering::Greater => Some(own - 1),
    }))
}

fn shape(x: &TensorMeta, axis: isize) -> Result<TensorMeta> {
    let axis = x.shape.axis(axis)?;
    let extent = x.shape.extent(axis);
    if extent != 1 {
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "axis {axis} of {} has extent {extent}; only an axis of extent 1 can be dropped",
                x.shape
            ),
        )
        .with_fix(format!("take one index of it: slice(&x, ..), or reduce it: sum(&x, {axis}, false)")));
    }
    Ok(TensorMeta::new(x.dtype, x.shape.without(axis)))
}

fn cases(cases: &mut Cases) {
    for (shape, axis) in
        [(&[1, 5][..], 0), (&[4, 1, 6], 1), (&[4, 6, 1], -1), (&[1], 0), (&[0, 1], 1), (&[1, 1, 3], 1)]
    {
        for dtype in [DType::F32, DType::I64] {
            cases.add([CaseOperand::new(dtype, shape)], squeeze { axis });
        }
    }
}

/// `x` without `axis` (negative counts from the back), whose extent must be 1. Inside a device nothing is copied.
///
/// Splits of the other axes are kept. If the dropped axis itself is split, `x` is gathered first: one device has all of it.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3], [1, 3], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let y = squeeze(&x, 0)?;
/// assert_eq!(y.layout().places(), [Sharded(0)]);
/// assert_eq!(y.to_vec::<i64>()?, [1, 2, 3]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, [`ErrorKind::Shape`](crate::ErrorKind::Shape)
/// for one of another extent than 1, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn squeeze(_cx: &mut KernelCx, x: &LocalArray, axis: isize) -> Result<LocalArray> {
    Ok(x.without(x.shape().axis(axis)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn the_dropped_axis_stays_whole() {
        let rows = ["R -> R", "S0 -> S0", "S2 -> S1", "P -> P"];
        ask::check::<squeeze>(&squeeze { axis: 1 }, &[2], &[ask::f32s(&[2, 1, 4])], &rows);
    }

    #[test]
    fn only_an_extent_of_one_is_dropped() {
        let error = shape(&TensorMeta::new(DType::F32, [2, 3]), -1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shape);
        assert!(error.message().contains("axis 1 of [2, 3] has extent 3"), "{error}");
    }
}
