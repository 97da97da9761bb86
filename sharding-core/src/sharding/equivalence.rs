//! When two shardings are the same in effect.

use super::Sharding;
use crate::Result;

/// Whether two shardings of any kinds put a tensor of `ndim` axes into the same memory of the same devices in the same
/// places.
///
/// Memory kinds, the devices in their order (also where everything is replicated) and what lies where are compared; names,
/// types and shapes of meshes are not. Two shardings on abstract meshes are compared without devices; one on an
/// abstract mesh is not equivalent to one with devices. No list of devices is made or walked where parts come from meshes.
///
/// ```
/// use sharding_core::{BackendKind, DeviceMesh, NamedSharding, Sharding, spec};
/// let grid = DeviceMesh::simulated(BackendKind::CPU, [4, 2], ["x", "y"])?;
/// let line = DeviceMesh::simulated(BackendKind::CPU, [8], ["d"])?;
/// let a = NamedSharding::new(&grid, spec![("x", "y")])?;
/// assert!(a.is_equivalent_to(&NamedSharding::new(&line, spec!["d", None])?, 2)?);
/// assert!(!a.is_equivalent_to(&NamedSharding::new(&grid, spec![("y", "x")])?, 2)?);
/// # Ok::<(), sharding_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Dimensions`](crate::ErrorKind::Dimensions) if one of them cuts an axis beyond `ndim`.
pub fn equivalent(a: &dyn Sharding, b: &dyn Sharding, ndim: usize) -> Result<bool> {
    let (x, y) = (a.tiling(ndim)?, b.tiling(ndim)?);
    let devices = match (a.device_order(), b.device_order()) {
        (Ok(x), Ok(y)) => x.same_devices(&y),
        (Err(_), Err(_)) => true,
        _ => false,
    };
    Ok(devices && a.memory_kind() == b.memory_kind() && x.same(&y))
}
