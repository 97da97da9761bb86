//! A tensor of one value, laid out as another.

use super::full::filled;
use sharding_core::{Result, Scalar, Tensor};

/// A tensor whose elements are all `value`, of the dtype, shape and placements of `x`; its elements are not looked at. Every
/// device makes its own piece, nothing is sent.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = zeros([3], DType::F32, &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = full_like(&x, 2.5)?;
/// assert_eq!(y.layout(), x.layout());
/// assert_eq!(y.to_vec::<f32>()?, [2.5; 3]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// As [`full`](crate::full): for a value that is none of the dtype, or an `x` that is Unknown.
#[track_caller]
pub fn full_like(x: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
    filled("full_like", x.shape().clone(), value.into(), x.dtype(), x.mapping())
}
