//! The memory of devices, as users ask for it: what is alive, and what was at most.

use crate::backend::{MemoryUse, backend_of};
use crate::tensor::{device_at, resolve};
use crate::{Device, DeviceMesh, Result};

impl Device {
    /// Bytes of the storages on this device (one slot of it, where the mesh is simulated): alive now, and at the peak
    /// since the last [`Device::reset_peak_memory`]. Arrays that share a storage count once, on the device that
    /// allocated it. As PyTorch's `max_memory_allocated` and JAX's `Device.memory_stats`.
    ///
    /// # Errors
    /// [`ErrorKind::Registry`](crate::ErrorKind::Registry) if no backend of its kind is linked, else what the backend
    /// says.
    pub fn memory(self) -> Result<MemoryUse> {
        backend_of(self.kind)?.memory(self)
    }

    /// Makes the bytes that are alive now the peak.
    ///
    /// # Errors
    /// As [`Device::memory`].
    pub fn reset_peak_memory(self) -> Result<()> {
        backend_of(self.kind)?.reset_peak_memory(self)
    }
}

impl DeviceMesh {
    /// The memory of every device of the mesh that this process addresses, in row-major order; see [`Device::memory`].
    ///
    /// # Errors
    /// If no backend is linked or the mesh names a device that is not there.
    pub fn memory(&self) -> Result<Vec<(Device, MemoryUse)>> {
        let (backend, positions) = resolve(self)?;
        let ask = |position: &usize| {
            let device = device_at(self, *position)?;
            Ok((device, backend.memory(device)?))
        };
        positions.iter().map(ask).collect()
    }

    /// [`Device::reset_peak_memory`] on every device of the mesh that this process addresses.
    ///
    /// # Errors
    /// As [`DeviceMesh::memory`].
    pub fn reset_peak_memory(&self) -> Result<()> {
        let (backend, positions) = resolve(self)?;
        positions.iter().try_for_each(|position| backend.reset_peak_memory(device_at(self, *position)?))
    }
}
