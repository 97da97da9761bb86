//! A tensor of zeros, laid out as another.

use super::full::filled;
use sharding_core::{DType, Result, Scalar, Tensor};

/// A tensor of zeros of the dtype, shape and placements of `x`; see [`full_like`](crate::full_like).
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = ones([3], DType::F32, &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(zeros_like(&x)?.to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Mapping`](crate::ErrorKind::Mapping) for an `x` that is Unknown.
#[track_caller]
pub fn zeros_like(x: &Tensor) -> Result<Tensor> {
    let zero = if x.dtype() == DType::Bool { Scalar::Bool(false) } else { Scalar::Int(0) };
    filled("zeros_like", x.shape().clone(), zero, x.dtype(), x.mapping())
}
