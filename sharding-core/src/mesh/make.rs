//! Meshes of exactly the caller's devices.

use super::AxisType;
use super::check::{check_devices, checked_names, checked_size};
use crate::{Device, DeviceMesh, Error, ErrorKind, Result};

/// A mesh of exactly these devices, in this order (row-major), with an [`AxisType`] per axis. As tinax's `make_mesh`;
/// JAX's own sorts devices and drops those beyond the product of the sizes.
///
/// ```
/// use sharding_core::{AxisType, Device, make_mesh};
/// let devices = [3, 1].map(|slot| Device::cpu().with_slot(slot));
/// let mesh = make_mesh(&devices, [2], ["x"], [AxisType::Explicit])?;
/// assert_eq!(mesh.devices().collect::<Vec<_>>(), devices);
/// assert!(make_mesh(&devices, [1], ["x"], [AxisType::Explicit]).is_err());
/// # Ok::<(), sharding_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Mesh`], for the first of these that holds: there is no device, one appears twice or is of another kind,
/// there is no axis or one of size 0, a name is empty or repeated, sizes, names and types are not of one number, the
/// product of the sizes is not the number of devices. [`ErrorKind::Overflow`] where the product does not fit.
pub fn make_mesh<N: AsRef<str>>(
    devices: &[Device],
    shape: impl AsRef<[usize]>,
    axis_names: impl AsRef<[N]>,
    axis_types: impl AsRef<[AxisType]>,
) -> Result<DeviceMesh> {
    made(devices, shape.as_ref(), axis_names.as_ref(), axis_types.as_ref())
        .map_err(|error| error.with_op("make_mesh"))
}

fn made<N: AsRef<str>>(
    devices: &[Device],
    shape: &[usize],
    axis_names: &[N],
    axis_types: &[AxisType],
) -> Result<DeviceMesh> {
    let refuse = |what: String, fix: &str| Err(Error::new(ErrorKind::Mesh, what).with_fix(fix));
    if devices.is_empty() {
        return refuse("a device mesh needs at least one device".to_owned(), "give the devices of the mesh");
    }
    check_devices(devices)?;
    if shape.is_empty() {
        return refuse(
            "make_mesh needs at least one mesh axis".to_owned(),
            "DeviceMesh::single(device) for one device",
        );
    }
    let size = checked_size(shape)?;
    if axis_names.len() == shape.len() {
        checked_names(axis_names, shape)?;
    }
    if axis_names.len() != shape.len() || axis_types.len() != shape.len() {
        return refuse(
            format!(
                "{} sizes, {} axis names and {} axis types; a mesh has one of each per axis",
                shape.len(),
                axis_names.len(),
                axis_types.len()
            ),
            "give one name and one type per size",
        );
    }
    if size != devices.len() {
        return refuse(
            format!(
                "the mesh shape {shape:?} needs {size} devices, got {}; every device is used once",
                devices.len()
            ),
            "give as many devices as the product of the mesh sizes",
        );
    }
    DeviceMesh::new(devices, shape, axis_names)?.with_axis_types(axis_types)
}
