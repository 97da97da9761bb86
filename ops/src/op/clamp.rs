//! Numbers kept between two bounds, elementwise.

use crate::{check, row};
use sharding_core::backend::{BinaryOp, Expr, LocalArray, Node};
use sharding_core::op::{CaseOperand, Cases, Fill};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Result, TensorMeta, sharding_rule};

fn extremes(cx: &RuleCx<'_>) -> Result<Rows> {
    Ok(row::extreme_rows(cx))
}

fn shape(x: &TensorMeta, low: &TensorMeta, high: &TensorMeta) -> Result<TensorMeta> {
    check::number("x", x)?;
    for (name, bound) in [("low", low), ("high", high)] {
        check::same_dtype(("x", x), (name, bound))?;
    }
    let both = TensorMeta::new(x.dtype, check::broadcast_shape(("x", x), ("low", low))?);
    Ok(TensorMeta::new(
        x.dtype,
        check::broadcast_shape(("the broadcast of x and low", &both), ("high", high))?,
    ))
}

fn cases(cases: &mut Cases) {
    for (x, low, high) in [
        (&[7, 5][..], &[][..], &[][..]),
        (&[7, 5], &[7, 5], &[5]),
        (&[2, 4, 6], &[4, 1], &[6]),
        (&[1, 3], &[1, 3], &[1, 3]),
        (&[0, 3], &[3], &[]),
    ] {
        for dtype in [DType::F32, DType::I64] {
            // Where the bounds are numbers, some elements lie between them.
            let bound = |shape: &[usize], fill| match shape {
                [] => CaseOperand::new(dtype, shape).with_fill(fill),
                _ => CaseOperand::new(dtype, shape),
            };
            let bounds = (bound(low, Fill::Below(1)), bound(high, Fill::Positive));
            cases.add([CaseOperand::new(dtype, x), bounds.0, bounds.1], clamp {});
        }
    }
}

/// `min(max(x, low), high)`, elementwise: `high` where the bounds cross, NaN if any of the three is. The shapes broadcast,
/// aligned at the last axis; the bounds may be numbers. For one bound there are [`maximum`](fn@crate::maximum) and
/// [`minimum`](fn@crate::minimum).
///
/// Any split is kept. Parts of a maximum or of a minimum in one operand pass through, other Partial operands are reduced
/// first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[-3.0_f32, 0.5, 7.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(clamp(&x, -1.0, 1.0)?.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for different dtypes or truth values, else as every op.
#[sharding_rule(["..., ..., ... -> ..."], rule_also = extremes, shape = shape, cases = cases)]
pub fn clamp(
    cx: &mut KernelCx,
    x: &LocalArray,
    #[scalar] low: &LocalArray,
    #[scalar] high: &LocalArray,
) -> Result<LocalArray> {
    static NODES: [Node; 5] = [
        Node::Input(0),
        Node::Input(1),
        Node::Input(2),
        Node::Binary(BinaryOp::Max, 0, 1),
        Node::Binary(BinaryOp::Min, 3, 2),
    ];
    cx.map(&Expr::from_static(&NODES), &[x, low, high])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::{Place, ReduceOp};

    #[test]
    fn parts_of_a_maximum_are_clamped_apart() {
        let x: ask::Placed<'_> = (DType::F32, &[4], &[Place::Partial(ReduceOp::Max)]);
        let rows =
            ["R R R -> R", "S0 R S0 -> S0", "Pmax R R -> Pmax", "R Pmax R -> Pmax", "R R Pmax -> Pmax"];
        ask::check::<clamp>(&clamp {}, &[2], &[x, ask::f32s(&[]), ask::f32s(&[4])], &rows);
    }
}
