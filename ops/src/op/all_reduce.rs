//! Combining the parts of a Partial tensor.

use crate::{MeshAxes, collective};
use sharding_core::{Place, Result, Tensor};

/// Combines the parts of `x` along one or several mesh axes (one collective over all of them), each of which must be
/// Partial; they become Replicated.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let total = all_reduce(&sum(&x, 0, true)?, "tp")?;
/// assert_eq!(total.layout().places(), [Replicated]);
/// assert_eq!(total.shard_to_vec::<f32>(1)?, [3.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Sharding`](crate::ErrorKind::Sharding) if an axis is not Partial, [`ErrorKind::Axis`](crate::ErrorKind::Axis)
/// for one that is not there.
#[track_caller]
pub fn all_reduce(x: &Tensor, mesh_axes: impl MeshAxes) -> Result<Tensor> {
    let fix = collective::to_replicated;
    collective::change("all_reduce", x, mesh_axes, (Place::is_partial, "Partial"), Place::Replicated, fix)
}
