//! When two shardings are the same in effect.

use super::Sharding;
use crate::{ErrorKind, Result};

/// Whether two shardings of any kinds put a tensor of `ndim` axes into the same memory of the same devices in the same
/// places.
///
/// Memory kinds, the devices in their order (also where everything is replicated) and what lies where are compared; names,
/// types and shapes of meshes are not. Two shardings on abstract meshes are compared without devices; one on an
/// abstract mesh is not equivalent to one with devices. No list of devices is made or walked where parts come from meshes.
///
/// A sharding that says nothing (`{unknown}`) is equivalent to none. One that takes tensors of [another
/// number](Sharding::tensor_ndim) of axes only is equivalent to what has the same tiles, and to nothing else.
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
/// [`ErrorKind::Dimensions`](crate::ErrorKind::Dimensions) if one that takes tensors of several numbers of axes cuts an axis
/// beyond `ndim`.
pub fn equivalent(a: &dyn Sharding, b: &dyn Sharding, ndim: usize) -> Result<bool> {
    let tiling = |sharding: &dyn Sharding| match sharding.tiling(sharding.tensor_ndim().unwrap_or(ndim)) {
        Err(error) if error.kind() == ErrorKind::Sharding => Ok(None),
        tiling => tiling.map(Some),
    };
    let (Some(x), Some(y)) = (tiling(a)?, tiling(b)?) else { return Ok(false) };
    let devices = match (a.device_order(), b.device_order()) {
        (Ok(x), Ok(y)) => x.same_devices(&y),
        (Err(_), Err(_)) => true,
        _ => false,
    };
    Ok(devices && a.memory_kind() == b.memory_kind() && x.same(&y))
}
