//! Everything on one device.

use super::tiling::position_in;
use super::{Devices, IndicesMap, MemoryKind, Sharding, Tiling, equivalent};
use crate::{Device, DeviceMesh, Result, Scope, Shape};
use std::fmt;
use std::sync::Arc;

/// Everything on one device. It takes tensors of any number of axes.
///
/// ```
/// use sharding_core::{Device, Shape, Sharding, SingleDeviceSharding};
/// let sharding = SingleDeviceSharding::new(Device::cpu());
/// let shape = Shape::from([3, 4]);
/// assert_eq!(sharding.shard_shape(&shape)?, shape);
/// assert!(sharding.is_fully_replicated());
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SingleDeviceSharding {
    device: Device,
    memory: MemoryKind,
}

impl SingleDeviceSharding {
    /// On this device, in its default memory.
    pub fn new(device: Device) -> Self {
        Self { device, memory: MemoryKind::Device }
    }
    /// On this device, in that memory.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryKind`](crate::ErrorKind::MemoryKind), naming the kinds that the device knows.
    pub fn in_memory(device: Device, kind: MemoryKind) -> Result<Self> {
        Ok(Self { device, memory: kind.checked(device.kind)? })
    }
    /// The device.
    pub fn device(&self) -> Device {
        self.device
    }
    fn mesh(&self) -> DeviceMesh {
        DeviceMesh::single(self.device)
    }
}

impl Sharding for SingleDeviceSharding {
    fn num_devices(&self) -> usize {
        1
    }
    fn device_order(&self) -> Result<DeviceMesh> {
        Ok(self.mesh())
    }
    fn device_set(&self) -> Result<Devices> {
        Ok(Devices::all(&self.mesh()))
    }
    fn addressable_devices(&self) -> Result<Devices> {
        Ok(Devices::of_process(&self.mesh(), Scope::current().process()))
    }
    fn devices_indices_map(&self, shape: &Shape) -> Result<IndicesMap> {
        IndicesMap::new(self.device_set()?, self.tiling(shape.len())?, shape)
    }
    fn addressable_devices_indices_map(&self, shape: &Shape) -> Result<IndicesMap> {
        IndicesMap::new(self.addressable_devices()?, self.tiling(shape.len())?, shape)
    }
    fn shard_shape(&self, shape: &Shape) -> Result<Shape> {
        Ok(shape.clone())
    }
    fn shard_shape_of(&self, shape: &Shape, device: Device) -> Result<Shape> {
        position_in(&self.mesh(), device, self)?;
        Ok(shape.clone())
    }
    fn tensor_ndim(&self) -> Option<usize> {
        None
    }
    fn is_equivalent_to(&self, other: &dyn Sharding, ndim: usize) -> Result<bool> {
        equivalent(self, other, ndim)
    }
    fn is_fully_replicated(&self) -> bool {
        true
    }
    fn is_fully_addressable(&self) -> Result<bool> {
        Ok(self.device.process == Scope::current().process())
    }
    fn memory_kind(&self) -> Option<MemoryKind> {
        Some(self.memory)
    }
    fn with_memory_kind(&self, kind: Option<MemoryKind>) -> Result<Arc<dyn Sharding>> {
        Ok(Arc::new(Self::in_memory(self.device, kind.unwrap_or_default())?))
    }
    fn tiling(&self, ndim: usize) -> Result<Tiling> {
        Ok(Tiling::replicated(1, ndim))
    }
}

impl fmt::Display for SingleDeviceSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SingleDeviceSharding({}", self.device)?;
        match self.memory {
            MemoryKind::Device => f.write_str(")"),
            other => write!(f, ", {other})"),
        }
    }
}
