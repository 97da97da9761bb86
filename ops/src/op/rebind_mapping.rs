//! A claim about what the devices hold.

use sharding_core::{DeviceMapping, Result, Shape, Tensor};

/// Claims a mapping and a global shape for the local arrays of `x`; nothing moves. Builds with debug assertions compare what
/// is claimed to be the same on several devices. See [`Tensor::rebind_mapping`].
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2], [2], &DeviceMapping::replicated(&mesh))?;
/// // Both devices hold [1, 2]: as shards of one axis they are [1, 2, 1, 2].
/// let y = rebind_mapping(&x, &DeviceMapping::new(&mesh, [Sharded(0)])?, [4])?;
/// assert_eq!(y.to_vec::<i64>()?, [1, 2, 1, 2]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Mesh`](crate::ErrorKind::Mesh) for another mesh, [`ErrorKind::Mapping`](crate::ErrorKind::Mapping) if the
/// local shapes are not those of the claim, or, in builds with debug assertions, devices that are claimed to hold the same do not.
#[track_caller]
pub fn rebind_mapping(x: &Tensor, mapping: &DeviceMapping, shape: impl Into<Shape>) -> Result<Tensor> {
    x.rebind_mapping(mapping, shape)
        .map_err(|error| error.with_op("rebind_mapping").with_operands([format!("x: {}", x.layout())]))
}
