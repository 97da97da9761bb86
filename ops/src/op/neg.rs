//! The negative, elementwise.

use crate::{check, elementwise, row};
use sharding_core::backend::{LocalArray, UnaryOp};
use sharding_core::op::Cases;
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Place, ReduceOp, Result, sharding_rule};

/// The greatest element becomes the least, and the other way round. Not for integers: the least one is its own negative.
fn extremes(cx: &RuleCx<'_>) -> Result<Rows> {
    let mut rows = Rows::new();
    let to = match row::combination(cx) {
        ReduceOp::Max => ReduceOp::Min,
        ReduceOp::Min => ReduceOp::Max,
        _ => return Ok(rows),
    };
    if cx.operands.first().is_some_and(|x| x.meta.dtype.is_float()) {
        rows.add([cx.place(0)], [Place::Partial(to)]);
    }
    Ok(rows)
}

fn cases(cases: &mut Cases) {
    elementwise::unary_cases(cases, DType::F32, neg {});
    elementwise::unary_cases(cases, DType::I64, neg {});
}

/// `-x`, elementwise; also written `-&x`. Integers wrap.
///
/// Any split of `x` is kept, and so are the parts of a sum. Parts of a maximum of floating-point numbers become parts of a
/// minimum, and the other way round.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 5.0, 3.0, -4.0], [2, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = (-&max(&x, 0, false)?)?;
/// assert_eq!(y.layout().places(), [Partial(ReduceOp::Min)]);
/// assert_eq!(y.to_vec::<f32>()?, [-3.0, -5.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for truth values, else as every op.
#[sharding_rule(["... -> ..."], linear(each), rule_also = extremes, shape = check::unary_number, cases = cases)]
pub fn neg(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.unary(UnaryOp::Neg, x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn parts_of_a_sum_stay_and_those_of_a_maximum_turn_round() {
        let rows = |dtype, place: Place, want: &[&str]| {
            ask::check::<neg>(&neg {}, &[2], &[(dtype, &[4, 1], &[place])], want);
        };
        rows(DType::I64, Place::Replicated, &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P"]);
        let max = Place::Partial(ReduceOp::Max);
        rows(DType::F32, max, &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P", "Pmax -> Pmin"]);
        rows(DType::I64, max, &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P"]);
        rows(DType::F32, Place::Partial(ReduceOp::Prod), &["R -> R", "S0 -> S0", "S1 -> S1", "P -> P"]);
    }
}
