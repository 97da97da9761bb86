//! A tensor of zeros.

use super::full::filled;
use sharding_core::{DType, Result, Scalar, Shape, Target, Tensor};

/// A tensor of zeros (`false` for truth values), laid out by `target`: every device makes its own piece, nothing is sent.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = zeros([3, 2], DType::I64, &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(x.to_vec::<i64>()?, [0; 6]);
/// assert_eq!(x.shard_to_vec::<i64>(1)?, [0; 2]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// As [`full`](crate::full).
#[track_caller]
pub fn zeros(shape: impl Into<Shape>, dtype: DType, target: &(impl Target + ?Sized)) -> Result<Tensor> {
    let zero = if dtype == DType::Bool { Scalar::Bool(false) } else { Scalar::Int(0) };
    filled("zeros", shape.into(), zero, dtype, target)
}
