//! The greater of two numbers, elementwise.

use crate::{check, elementwise, row};
use sharding_core::backend::{BinaryOp, LocalArray};
use sharding_core::op::{Cases, Fill};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Place, ReduceOp, Result, sharding_rule};

/// Parts of a maximum or minimum in one operand pass through, and parts of a maximum in both.
fn extremes(cx: &RuleCx<'_>) -> Result<Rows> {
    let mut rows = row::extreme_rows(cx);
    let parts = Place::Partial(ReduceOp::Max);
    if !rows.is_empty() && row::combination(cx) == ReduceOp::Max {
        rows.add([parts, parts], [parts]);
    }
    Ok(rows)
}

fn cases(cases: &mut Cases) {
    elementwise::binary_cases(cases, DType::F32, Fill::Signed, maximum {});
    elementwise::binary_cases(cases, DType::I64, Fill::Signed, maximum {});
}

/// The greater of `lhs` and `rhs`, elementwise; NaN if either is. Shapes broadcast, aligned at the last axis; either may be
/// a number. (Along an axis of one tensor: [`max`](fn@crate::max).)
///
/// Any split is kept. Parts of a maximum or of a minimum beside a whole operand pass through, and so do two operands in
/// parts of a maximum; other Partial operands are reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, -2.0, 3.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(maximum(&x, 2.0)?.to_vec::<f32>()?, [2.0, 2.0, 3.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for two dtypes or truth values, else as every op.
#[sharding_rule(["..., ... -> ..."], rule_also = extremes, shape = check::binary, cases = cases)]
pub fn maximum(
    cx: &mut KernelCx,
    #[scalar] lhs: &LocalArray,
    #[scalar] rhs: &LocalArray,
) -> Result<LocalArray> {
    cx.binary(BinaryOp::Max, lhs, rhs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn parts_of_extremes_pass_through() {
        let rows = |place: Place, more: &[&str]| {
            let operands = [ask::f32s(&[4]), (DType::F32, &[4][..], &[place][..])];
            let want = [&["R R -> R", "S0 S0 -> S0"], more].concat();
            ask::check::<maximum>(&maximum {}, &[2], &operands, &want);
        };
        rows(Place::PARTIAL, &[]);
        rows(Place::Partial(ReduceOp::Max), &["Pmax R -> Pmax", "R Pmax -> Pmax", "Pmax Pmax -> Pmax"]);
        rows(Place::Partial(ReduceOp::Min), &["Pmin R -> Pmin", "R Pmin -> Pmin"]);
    }
}
