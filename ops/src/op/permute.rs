//! Another order of the tensor axes.

use crate::row;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Result, Shape, TensorMeta, sharding_rule};
use smallvec::SmallVec;

/// The axes counted from the front, if they are each axis once.
fn order(shape: &Shape, axes: &[isize]) -> Result<SmallVec<[usize; 4]>> {
    let order = axes.iter().map(|axis| shape.axis(*axis)).collect::<Result<SmallVec<[usize; 4]>>>()?;
    let twice = order.iter().enumerate().find(|(i, axis)| order.iter().take(*i).any(|other| other == *axis));
    if twice.is_some() || order.len() != shape.len() {
        let all: Vec<_> = (0..shape.len()).rev().collect();
        return Err(Error::new(
            ErrorKind::Axis,
            format!("{axes:?} is not an order of the {} axes of {shape}", shape.len()),
        )
        .with_fix(format!("name each axis once, as in {all:?}")));
    }
    Ok(order)
}

fn rule(cx: &RuleCx<'_>, axes: &[isize]) -> Result<Rows> {
    let order = match cx.operands.first() {
        Some(x) => order(&x.meta.shape, axes)?,
        None => SmallVec::new(),
    };
    Ok(row::movement_rows(cx, |axis| order.iter().position(|own| *own == axis)))
}

fn shape(x: &TensorMeta, axes: &[isize]) -> Result<TensorMeta> {
    let order = order(&x.shape, axes)?;
    Ok(TensorMeta::new(x.dtype, order.iter().map(|axis| x.shape.extent(*axis)).collect::<Shape>()))
}

fn cases(cases: &mut Cases) {
    for (shape, axes) in [
        (&[7, 5][..], &[1, 0][..]),
        (&[2, 3, 5], &[1, 0, 2]),
        (&[2, 3, 5], &[2, 0, 1]),
        (&[4, 1, 3, 2], &[0, 2, -3, -1]),
        (&[6], &[0]),
        (&[0, 4], &[1, 0]),
        (&[], &[]),
    ] {
        for dtype in [DType::F32, DType::Bool] {
            cases.add([CaseOperand::new(dtype, shape)], permute { axes: axes.into() });
        }
    }
}

/// The tensor whose axis `i` is axis `axes[i]` of `x` (negative counts from the back). Splits follow their axes; no data
/// moves, also not inside a device.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5, 6], [2, 3], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let y = permute(&x, &[1, 0])?;
/// assert_eq!(y.layout().places(), [Sharded(0)]);
/// assert_eq!(y.to_vec::<i64>()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) unless every axis is named once, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn permute(_cx: &mut KernelCx, x: &LocalArray, axes: &[isize]) -> Result<LocalArray> {
    Ok(x.permute(&order(x.shape(), axes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::Place;

    #[test]
    fn splits_follow_their_axes() {
        let x: ask::Placed<'_> = (DType::F32, &[2, 3, 4], &[Place::Partial(sharding_core::ReduceOp::Max)]);
        let rows = ["R -> R", "S0 -> S2", "S1 -> S0", "S2 -> S1", "Pmax -> Pmax"];
        ask::check::<permute>(&permute { axes: [1, 2, 0][..].into() }, &[2], &[x], &rows);
    }
}
