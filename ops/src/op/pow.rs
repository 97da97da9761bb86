//! A power, elementwise.

use crate::{check, elementwise};
use sharding_core::backend::{BinaryOp, LocalArray};
use sharding_core::op::{Cases, Fill};
use sharding_core::{DType, KernelCx, Result, TensorMeta, sharding_rule};

fn shape(base: &TensorMeta, exponent: &TensorMeta) -> Result<TensorMeta> {
    let (base, exponent) = (("base", base), ("exponent", exponent));
    check::float(base.0, base.1)?;
    check::same_dtype(base, exponent)?;
    Ok(TensorMeta::new(base.1.dtype, check::broadcast_shape(base, exponent)?))
}

fn cases(cases: &mut Cases) {
    elementwise::binary_cases(cases, DType::F32, Fill::Signed, pow {});
}

/// `base` to the power of `exponent`, elementwise; shapes broadcast, aligned at the last axis, and either may be a number.
/// Special values are those of IEEE 754's `pow`: 1 for an exponent of 0, NaN for a negative base and a fraction.
///
/// Any split is kept, Partial operands are reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, -2.0, 3.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(pow(&x, 2.0)?.to_vec::<f32>()?, [1.0, 4.0, 9.0]);
/// assert_eq!(pow(2.0, &x)?.to_vec::<f32>()?, [2.0, 0.25, 8.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for two dtypes or numbers that are not floating-point, else as every op.
#[sharding_rule(["..., ... -> ..."], shape = shape, cases = cases)]
pub fn pow(
    cx: &mut KernelCx,
    #[scalar] base: &LocalArray,
    #[scalar] exponent: &LocalArray,
) -> Result<LocalArray> {
    cx.binary(BinaryOp::Pow, base, exponent)
}
