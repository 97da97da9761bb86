//! Joining the shards of a tensor axis.

use crate::{MeshAxes, collective};
use sharding_core::{Place, Result, Tensor};

/// Joins the shards of `tensor_axis` (negative counts from the back) along one or several mesh axes (one collective over
/// all of them), each of which must split it; they become Replicated.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(all_gather(&x, "tp", 0)?.shard_to_vec::<i64>(1)?, [1, 2, 3]);
/// assert_eq!(all_gather(&x, "tp", 1).unwrap_err().kind(), ErrorKind::Axis);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Sharding`](crate::ErrorKind::Sharding) if an axis does not split the tensor axis,
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for one that is not there.
#[track_caller]
pub fn all_gather(x: &Tensor, mesh_axes: impl MeshAxes, tensor_axis: isize) -> Result<Tensor> {
    let axis = x
        .shape()
        .axis(tensor_axis)
        .map_err(|error| error.with_op("all_gather").with_operands([format!("x: {}", x.layout())]))?;
    let splits = |place: Place| place.tensor_axis() == Some(axis);
    let what = format!("split on tensor axis {axis}");
    let fix = collective::to_replicated;
    collective::change("all_gather", x, mesh_axes, (splits, &what), Place::Replicated, fix)
}
