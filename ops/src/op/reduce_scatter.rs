//! Combining the parts of a Partial tensor, each device keeping a piece.

use crate::{MeshAxes, collective};
use sharding_core::placement::sharded;
use sharding_core::{Place, Result, Tensor};

/// Combines the parts of `x` along one or several mesh axes, each of which must be Partial, and leaves each device its
/// piece of `tensor_axis` (negative counts from the back): half the bytes of an [`all_reduce`](fn@crate::all_reduce).
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let total = reduce_scatter(&sum(&x, 0, false)?, "tp", 0)?;
/// assert_eq!(total.shard_to_vec::<f32>(0)?, [4.0]);
/// assert_eq!(total.shard_to_vec::<f32>(1)?, [6.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Sharding`](crate::ErrorKind::Sharding) if an axis is not Partial, [`ErrorKind::Axis`](crate::ErrorKind::Axis)
/// for one that is not there.
#[track_caller]
pub fn reduce_scatter(x: &Tensor, mesh_axes: impl MeshAxes, tensor_axis: isize) -> Result<Tensor> {
    let axis = x
        .shape()
        .axis(tensor_axis)
        .map_err(|error| error.with_op("reduce_scatter").with_operands([format!("x: {}", x.layout())]))?;
    let fix = |name: &str, place: Place| match place {
        Place::Replicated => {
            format!("x.transfer_to(..) with {} on '{name}' slices it without communication", sharded(axis))
        }
        _ => collective::to_replicated(name, place),
    };
    collective::change("reduce_scatter", x, mesh_axes, (Place::is_partial, "Partial"), sharded(axis), fix)
}
