//! Questions to shardings of a million devices.

use super::Outcome;
use super::measure::measure;
use sharding_core::{
    BackendKind, Device, DeviceMesh, Error, ErrorKind, NamedSharding, Result, Shape, Sharding, spec,
};

fn mesh(shape: &[usize], names: &[&str]) -> Result<DeviceMesh> {
    DeviceMesh::simulated(BackendKind::SIM, shape, names)
}
fn rows() -> Result<NamedSharding> {
    NamedSharding::new(&mesh(&[1024, 1024], &["x", "y"])?, spec!["x"])
}
fn last(sharding: &NamedSharding) -> Result<Device> {
    let mesh = sharding.mesh()?;
    mesh.device(mesh.num_devices() - 1).ok_or_else(|| Error::new(ErrorKind::Mesh, "a mesh without devices"))
}

/// The index map, and the indices of one device from it.
pub(super) fn indices(name: &str) -> Result<Outcome> {
    let (sharding, shape) = (rows()?, Shape::from([8192, 8192]));
    let device = last(&sharding)?;
    measure(name, || sharding.devices_indices_map(&shape)?.of(device)).map(Outcome::from)
}

/// The same, and how many devices before it hold the same.
pub(super) fn replica_id(name: &str) -> Result<Outcome> {
    let (sharding, shape) = (rows()?, Shape::from([8192, 8192]));
    let device = last(&sharding)?;
    measure(name, || sharding.devices_indices_map(&shape)?.replica_id(device)).map(Outcome::from)
}

/// Two spellings on meshes of two shapes.
pub(super) fn equivalent(name: &str) -> Result<Outcome> {
    let (a, b) = (rows()?, mesh(&[32, 32, 1024], &["a", "b", "c"])?);
    let b = NamedSharding::new(&b, spec![("a", "b"), None])?;
    measure(name, || match a.is_equivalent_to(&b, 2)? {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Internal, "two spellings of one sharding are not equivalent")),
    })
    .map(Outcome::from)
}
