//! A tensor of ones.

use super::full::filled;
use sharding_core::{DType, Result, Scalar, Shape, Target, Tensor};

/// A tensor of ones (`true` for truth values), laid out by `target`: every device makes its own piece, nothing is sent. On
/// a Partial axis they count once, as of [`full`](crate::full).
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = ones([3], DType::F32, &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(x.to_vec::<f32>()?, [1.0; 3]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// As [`full`](crate::full).
#[track_caller]
pub fn ones(shape: impl Into<Shape>, dtype: DType, target: &(impl Target + ?Sized)) -> Result<Tensor> {
    let one = if dtype == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(1) };
    filled("ones", shape.into(), one, dtype, target)
}
