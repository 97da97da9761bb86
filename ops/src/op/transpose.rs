//! Two tensor axes exchanged.

use crate::row;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Result, Shape, TensorMeta, sharding_rule};
use smallvec::SmallVec;

/// The axis that each axis of the result is of `x`.
fn order(shape: &Shape, a: isize, b: isize) -> Result<SmallVec<[usize; 4]>> {
    let (a, b) = (shape.axis(a)?, shape.axis(b)?);
    let mut order: SmallVec<[usize; 4]> = (0..shape.len()).collect();
    order.swap(a, b);
    Ok(order)
}

fn rule(cx: &RuleCx<'_>, a: isize, b: isize) -> Result<Rows> {
    let Some(x) = cx.operands.first() else { return Ok(Rows::new()) };
    let order = order(&x.meta.shape, a, b)?;
    // An exchange is its own inverse.
    Ok(row::movement_rows(cx, |axis| order.get(axis).copied()))
}

fn shape(x: &TensorMeta, a: isize, b: isize) -> Result<TensorMeta> {
    let order = order(&x.shape, a, b)?;
    Ok(TensorMeta::new(x.dtype, order.iter().map(|axis| x.shape.extent(*axis)).collect::<Shape>()))
}

fn cases(cases: &mut Cases) {
    for (shape, a, b) in [
        (&[7, 5][..], 0, 1),
        (&[2, 3, 5], -1, -2),
        (&[2, 3, 5, 4], 0, 2),
        (&[4, 1, 3], 1, 0),
        (&[6], 0, -1),
        (&[0, 4], 0, 1),
    ] {
        for dtype in [DType::F32, DType::Bool] {
            cases.add([CaseOperand::new(dtype, shape)], transpose { a, b });
        }
    }
}

/// `x` with axes `a` and `b` exchanged (negative counts from the back). Splits follow their axes; no data moves, also not
/// inside a device.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5, 6], [2, 3], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let y = transpose(&x, 0, 1)?;
/// assert_eq!(y.layout().places(), [Sharded(0)]);
/// assert_eq!(y.to_vec::<i64>()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn transpose(_cx: &mut KernelCx, x: &LocalArray, a: isize, b: isize) -> Result<LocalArray> {
    Ok(x.permute(&order(x.shape(), a, b)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn splits_follow_their_axes() {
        let rows = ["R -> R", "S0 -> S2", "S1 -> S1", "S2 -> S0", "P -> P"];
        ask::check::<transpose>(&transpose { a: 0, b: -1 }, &[2], &[ask::f32s(&[2, 3, 4])], &rows);
    }
}
