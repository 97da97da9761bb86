//! `lhs / rhs`, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray};
use sharding_core::op::{Cases, Fill};
use sharding_core::{DType, KernelCx, Result, TensorMeta, sharding_rule};

fn shape(lhs: &TensorMeta, rhs: &TensorMeta) -> Result<TensorMeta> {
    check::float("lhs", lhs)?;
    check::binary(lhs, rhs)
}

fn cases(cases: &mut Cases) {
    elementwise::binary_cases(cases, DType::F32, Fill::Positive, div {});
}

/// `lhs / rhs`, elementwise; shapes broadcast, aligned at the last axis. Either may be a number.
///
/// A Partial dividend over a Replicated divisor stays Partial. Integers are refused: the quotient of integers is none, and
/// rounding each part of a Partial is not rounding their sum.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let rows = DeviceMapping::new(&mesh, [Sharded(0)])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &rows)?;
/// assert_eq!(div(&x, 2.0)?.to_vec::<f32>()?, [0.5, 1.0, 1.5]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for two dtypes or numbers that are not floating-point, else as every op.
#[sharding_rule(["..., ... -> ..."], linear(lhs), shape = shape, cases = cases)]
pub fn div(cx: &mut KernelCx, #[scalar] lhs: &LocalArray, #[scalar] rhs: &LocalArray) -> Result<LocalArray> {
    cx.binary(BinaryOp::Div, lhs, rhs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn only_the_dividend_may_come_in_parts() {
        let operands = [ask::f32s(&[4]), ask::f32s(&[4])];
        ask::check::<div>(&div {}, &[2], &operands, &["R R -> R", "S0 S0 -> S0", "P R -> P"]);
    }
}
