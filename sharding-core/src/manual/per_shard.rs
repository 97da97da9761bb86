//! One value per device, of any type.

use super::DeviceCx;
use crate::{DeviceMesh, Error, ErrorKind, Result};
use std::fmt;

/// One value per device of a mesh, for the functions of [`call_on_mesh`](super::call_on_mesh): labels, offsets, settings.
///
/// ```
/// use sharding_core::manual::PerShard;
/// use sharding_core::{BackendKind, DeviceMesh};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let offsets = PerShard::from_fn(&mesh, |position| position * 100);
/// assert_eq!(offsets.values(), [0, 100]);
/// assert!(PerShard::new(&mesh, vec!["only one"]).is_err());
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone)]
pub struct PerShard<T> {
    mesh: DeviceMesh,
    values: Vec<T>,
}

impl<T> PerShard<T> {
    /// The values of all devices, in row-major order.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if there is not one per device.
    pub fn new(mesh: &DeviceMesh, values: impl Into<Vec<T>>) -> Result<Self> {
        let values = values.into();
        if values.len() == mesh.num_devices() {
            return Ok(Self { mesh: mesh.clone(), values });
        }
        Err(Error::new(
            ErrorKind::Argument,
            format!("{} values for the {} devices of {mesh}", values.len(), mesh.num_devices()),
        )
        .with_op("PerShard::new")
        .with_fix("give one value per device, in row-major order"))
    }

    /// The values that `value` gives for each row-major position.
    pub fn from_fn(mesh: &DeviceMesh, value: impl FnMut(usize) -> T) -> Self {
        Self { mesh: mesh.clone(), values: (0..mesh.num_devices()).map(value).collect() }
    }

    /// All values, in row-major order.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The value of the device that a function runs for; of a group, its first device's.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if the function runs on another mesh.
    pub fn at(&self, cx: &DeviceCx) -> Result<&T> {
        self.of(cx, cx.position())
    }

    /// The values of all devices of the group that a function runs for, in its order.
    ///
    /// # Errors
    /// As [`PerShard::at`].
    pub fn group(&self, cx: &DeviceCx) -> Result<Vec<&T>> {
        cx.positions().iter().map(|position| self.of(cx, *position)).collect()
    }

    fn of(&self, cx: &DeviceCx, position: usize) -> Result<&T> {
        let found = if self.mesh == *cx.whole_mesh() { self.values.get(position) } else { None };
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::Mesh,
                format!("these are values of {}, and the function runs on {}", self.mesh, cx.whole_mesh()),
            )
            .with_op("PerShard::at")
            .with_fix("PerShard::new(&mesh, values) with the mesh of the call")
        })
    }
}

impl<T: fmt::Debug> fmt::Debug for PerShard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PerShard({}, {:?})", self.mesh, self.values)
    }
}
