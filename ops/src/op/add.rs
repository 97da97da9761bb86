//! `lhs + rhs`, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray};
use sharding_core::op::{Cases, Fill};
use sharding_core::{DType, KernelCx, Result, TensorMeta, sharding_rule};

fn shape(lhs: &TensorMeta, rhs: &TensorMeta) -> Result<TensorMeta> {
    check::binary(lhs, rhs)
}

fn cases(cases: &mut Cases) {
    elementwise::binary_cases(cases, DType::F32, Fill::Signed, add {});
    elementwise::binary_cases(cases, DType::I64, Fill::Signed, add {});
}

/// `lhs + rhs`, elementwise; shapes broadcast, aligned at the last axis. Either may be a number.
///
/// Sums of Partial operands stay Partial: parts are added on each device. A number beside a Partial tensor is Partial
/// too, held by one device, so it counts once.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let rows = DeviceMapping::new(&mesh, [Sharded(0)])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &rows)?;
/// let bias = Tensor::from_slice(&[10.0_f32, 20.0], [2], &DeviceMapping::replicated(&mesh))?;
/// let y = add(&add(&x, &bias)?, 0.5)?;
/// assert_eq!(y.to_vec::<f32>()?, [11.5, 22.5, 13.5, 24.5]);
/// assert_eq!(y.mapping(), &rows);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for two dtypes or truth values, else as every op.
#[sharding_rule(["..., ... -> ..."], linear(together), shape = shape, cases = cases)]
pub fn add(cx: &mut KernelCx, #[scalar] lhs: &LocalArray, #[scalar] rhs: &LocalArray) -> Result<LocalArray> {
    cx.binary(BinaryOp::Add, lhs, rhs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn parts_add_up_together_and_broadcast_operands_stay_whole() {
        let operands = [ask::f32s(&[4, 1]), ask::f32s(&[8])];
        ask::check::<add>(&add {}, &[2], &operands, &["R R -> R", "S0 R -> S0", "R S0 -> S1", "P P -> P"]);
    }
}
