//! Shardings: which device holds which indices of a tensor, told in several ways.
//!
//! All kinds answer the questions of the trait [`Sharding`], whose semantics are those of JAX's class of that name:
//! [`NamedSharding`] (a mesh and a [`PartitionSpec`](crate::PartitionSpec)), [`SingleDeviceSharding`],
//! [`PositionalSharding`] (an array of device sets), [`PmapSharding`] (an index of a tensor axis on each device),
//! [`GspmdSharding`] (tiles as XLA writes them), and the [`DeviceMapping`](crate::DeviceMapping) that every tensor has. All
//! cut evenly or not at all, but a device mapping cuts any extent. What lies where is one form for all of them, the
//! [`Tiling`]; `B::try_from(&a)` converts between any two kinds, lossless or with an error.
//!
//! ```
//! use sharding_core::{BackendKind, DeviceMesh, NamedSharding, Shape, Sharding, spec};
//! // A million devices cost no list: the indices of one of them are one answer.
//! let mesh = DeviceMesh::simulated(BackendKind::SIM, [1024, 1024], ["dp", "tp"])?;
//! let sharding = NamedSharding::new(&mesh, spec![("tp", "dp")])?;
//! let map = sharding.devices_indices_map(&Shape::from([1 << 21]))?;
//! let device = mesh.device(1).unwrap_or(mesh.devices().next().unwrap());
//! assert_eq!(map.of(device)?[0][0], 2048..2050);
//! # Ok::<(), sharding_core::Error>(())
//! ```

mod convert;
mod devices;
mod equivalence;
mod gspmd;
mod gspmd_from;
mod gspmd_into;
mod hlo;
mod indices;
mod layout;
mod mapping;
mod memory_kind;
mod named;
mod ordered;
mod parts;
mod pmap;
mod positional;
mod single_device;
mod tiling;

pub use devices::Devices;
pub use equivalence::equivalent;
pub use gspmd::GspmdSharding;
pub use hlo::{HloKind, HloSharding, MeshAxes, Subgroup, TileAssignment};
pub use indices::IndicesMap;
pub use layout::layout;
pub use memory_kind::MemoryKind;
pub use named::NamedSharding;
pub(crate) use ordered::indivisible;
pub use parts::Parts;
pub use pmap::{PmapAxis, PmapMeshAxis, PmapSharding, PmapSpec};
pub use positional::PositionalSharding;
pub use single_device::SingleDeviceSharding;
pub use tiling::Tiling;

#[cfg(test)]
mod tests;

use crate::{Device, DeviceMesh, Result, Shape, Target};
use std::fmt::{Debug, Display};
use std::sync::Arc;

/// Which device holds which indices of a tensor.
///
/// Device order is the row-major order of the mesh, or the order in which the devices were given. Extents of 0 divide
/// by anything. Questions about devices are errors of kind [`ErrorKind::Mesh`](crate::ErrorKind::Mesh) where the mesh
/// is abstract. Nothing here costs a list of devices where the devices are a range.
///
/// Every sharding is a [`Target`]: tensors are placed by it.
pub trait Sharding: Target + Debug + Display + Send + Sync {
    /// The number of devices.
    fn num_devices(&self) -> usize;

    /// The devices as a mesh, whose row-major order is the device order.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`](crate::ErrorKind::Mesh) if there are none: the mesh is abstract.
    fn device_order(&self) -> Result<DeviceMesh>;

    /// All devices, those of other processes included.
    ///
    /// # Errors
    /// As [`Sharding::device_order`].
    fn device_set(&self) -> Result<Devices>;

    /// The devices of the process in [`Scope`](crate::Scope).
    ///
    /// # Errors
    /// As [`Sharding::device_order`].
    fn addressable_devices(&self) -> Result<Devices>;

    /// The indices of every device, in device order.
    ///
    /// # Errors
    /// As [`Sharding::device_order`] and [`Sharding::shard_shape`];
    /// [`ErrorKind::Unreduced`](crate::ErrorKind::Unreduced) where devices hold terms of a value, so that nobody holds its
    /// elements.
    fn devices_indices_map(&self, shape: &Shape) -> Result<IndicesMap>;

    /// The same for the devices of the process in [`Scope`](crate::Scope).
    ///
    /// # Errors
    /// As [`Sharding::devices_indices_map`].
    fn addressable_devices_indices_map(&self, shape: &Shape) -> Result<IndicesMap>;

    /// The shape of every shard of a tensor of this shape.
    ///
    /// # Errors
    /// [`ErrorKind::Dimensions`](crate::ErrorKind::Dimensions) if it is not for tensors of so many axes, which is
    /// checked first; [`ErrorKind::Indivisible`](crate::ErrorKind::Indivisible) naming the sharding, the first tensor axis
    /// that does not divide, its ways and its size.
    fn shard_shape(&self, shape: &Shape) -> Result<Shape>;

    /// The shape of the shard of one device. Where shards may differ, this answers where
    /// [`Sharding::shard_shape`] cannot.
    ///
    /// # Errors
    /// As [`Sharding::device_order`] and [`Sharding::shard_shape`]; [`ErrorKind::Argument`](crate::ErrorKind::Argument)
    /// for a device that is not one of them.
    fn shard_shape_of(&self, shape: &Shape, device: Device) -> Result<Shape>;

    /// The number of axes of its tensors, where it takes no others: cut by tiles that say so.
    fn tensor_ndim(&self) -> Option<usize>;

    /// Whether both put a tensor of so many axes into the same memory of the same devices in the same places: the
    /// answer of [`equivalent`].
    ///
    /// # Errors
    /// As [`equivalent`].
    fn is_equivalent_to(&self, other: &dyn Sharding, ndim: usize) -> Result<bool>;

    /// Whether every device holds everything. Mesh axes of size 1 split nothing.
    fn is_fully_replicated(&self) -> bool;

    /// Whether all devices are of the process in [`Scope`](crate::Scope).
    ///
    /// # Errors
    /// As [`Sharding::device_order`].
    fn is_fully_addressable(&self) -> Result<bool>;

    /// The memory that holds the data; `None` if no kind was given and there are no devices to have a default.
    fn memory_kind(&self) -> Option<MemoryKind>;

    /// The same placement in another memory; `None` for the devices' default.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryKind`](crate::ErrorKind::MemoryKind), naming the kinds that the devices know.
    fn with_memory_kind(&self, kind: Option<MemoryKind>) -> Result<Arc<dyn Sharding>>;

    /// What lies where, for tensors of so many axes.
    ///
    /// # Errors
    /// [`ErrorKind::Sharding`](crate::ErrorKind::Sharding) if it says nothing;
    /// [`ErrorKind::Dimensions`](crate::ErrorKind::Dimensions) if it cuts an axis beyond those, or is for tensors of
    /// [another number](Sharding::tensor_ndim) of axes.
    fn tiling(&self, ndim: usize) -> Result<Tiling>;
}
