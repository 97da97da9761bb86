//! What the kinds over an ordered list of devices have in common: [`GspmdSharding`](super::GspmdSharding),
//! [`PositionalSharding`](super::PositionalSharding) and [`PmapSharding`](super::PmapSharding).

use super::hlo::TileAssignment;
use super::{Devices, MemoryKind, Parts, Tiling};
use crate::{Device, DeviceMesh, Error, ErrorKind, Result, Shape};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Devices in an order, and the memory that holds the data.
#[derive(Clone)]
pub(super) struct Ordered {
    /// Only its row-major order counts.
    pub(super) mesh: DeviceMesh,
    pub(super) memory: MemoryKind,
}

impl Ordered {
    /// Devices as they are given, in their default memory.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] as [`DeviceMesh::new`]: no device, one twice, or devices of several kinds.
    pub(super) fn new(devices: &[Device]) -> Result<Self> {
        Ok(Self::on(&DeviceMesh::new(devices, [devices.len()], ["devices"])?))
    }
    /// The devices of a mesh in row-major order, in their default memory.
    pub(super) fn on(mesh: &DeviceMesh) -> Self {
        Self { mesh: mesh.clone(), memory: MemoryKind::Device }
    }
    /// The same devices in another memory.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryKind`], naming the kinds that the devices know.
    pub(super) fn in_memory(&self, memory: MemoryKind) -> Result<Self> {
        if let Some(device) = self.mesh.device(0) {
            memory.checked(device.kind)?;
        }
        Ok(Self { mesh: self.mesh.clone(), memory })
    }
    pub(super) fn len(&self) -> usize {
        self.mesh.num_devices()
    }
    pub(super) fn devices(&self) -> Devices {
        Devices::all(&self.mesh)
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.memory == other.memory && self.mesh.same_devices(&other.mesh)
    }
}
impl Eq for Ordered {}
impl Hash for Ordered {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Meshes of several shapes have the same devices: their number and the ends tell most apart.
        (self.len(), self.mesh.device(0), self.mesh.device(self.len().saturating_sub(1)), self.memory)
            .hash(state);
    }
}

/// `cpu:0, cpu:0/1` of up to four devices, and what memory they use if it is not their own.
impl fmt::Display for Ordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = 4;
        for (i, device) in self.devices().take(most).enumerate() {
            write!(f, "{}{device}", if i == 0 { "[" } else { ", " })?;
        }
        match self.len().checked_sub(most) {
            None | Some(0) => f.write_str("]")?,
            Some(more) => write!(f, ", and {more} more]")?,
        }
        match self.memory {
            MemoryKind::Device => Ok(()),
            other => write!(f, ", {other}"),
        }
    }
}

/// A tile assignment, with the part that every device holds along each of its dimensions.
#[derive(Clone)]
pub(super) struct Grid {
    pub(super) tiles: TileAssignment,
    parts: Arc<[Parts]>,
}

impl Grid {
    /// # Errors
    /// [`ErrorKind::Overflow`] if that takes a list of more devices than are listed.
    pub(super) fn new(tiles: TileAssignment) -> Result<Self> {
        let parts = tiles.parts()?.into();
        Ok(Self { tiles, parts })
    }
    /// What every device holds along a dimension.
    pub(super) fn parts(&self, dim: usize) -> Parts {
        self.parts.get(dim).cloned().unwrap_or_else(Parts::whole)
    }
    /// The first `ndim` dimensions as the axes of a tensor.
    pub(super) fn tiling(&self, ndim: usize) -> Result<Tiling> {
        let whole = Tiling::replicated(self.tiles.num_devices(), ndim);
        (0..ndim).try_fold(whole, |tiling, axis| tiling.cut(axis, self.parts(axis)))
    }
}

impl PartialEq for Grid {
    fn eq(&self, other: &Self) -> bool {
        self.tiles == other.tiles
    }
}
impl Eq for Grid {}
impl Hash for Grid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tiles.hash(state);
    }
}

/// The error of a sharding for tensors of `wanted` axes only.
pub(super) fn wrong_dimensions(sharding: &dyn fmt::Display, wanted: usize, ndim: usize) -> Error {
    Error::new(ErrorKind::Dimensions, format!("{sharding} is for tensors of {wanted} axes, not of {ndim}"))
        .with_fix(format!("ask about a shape of {wanted} axes, or make a sharding of {ndim} dimensions"))
}

/// The shape of every shard, where each extent divides.
///
/// # Errors
/// [`ErrorKind::Indivisible`], naming the first axis that does not.
pub(super) fn even(sharding: &dyn fmt::Display, tiling: Tiling, shape: &Shape) -> Result<(Tiling, Shape)> {
    match tiling.even_shape(shape) {
        Ok(each) => Ok((tiling, each)),
        Err(axis) => {
            let otherwise = ", or DeviceMapping::try_from(&sharding)?, whose splits may be uneven";
            Err(indivisible(sharding, axis, tiling.ways(axis), shape, otherwise))
        }
    }
}

/// The error of what cuts a tensor axis evenly or not at all; `otherwise` ends the line that says what to write.
pub(crate) fn indivisible(
    what: &dyn fmt::Display,
    axis: usize,
    ways: usize,
    shape: &Shape,
    otherwise: &str,
) -> Error {
    let size = shape.extent(axis);
    let even = size.div_ceil(ways.max(1)).saturating_mul(ways);
    Error::new(
        ErrorKind::Indivisible,
        format!(
            "{what} cuts tensor axis {axis} {ways} ways, which does not divide its size {size} (shape {shape})"
        ),
    )
    .with_fix(format!("pad the axis to {even}{otherwise}"))
}

/// Implements [`Sharding`](super::Sharding) for a kind with the methods `order()` (an [`Ordered`]), `checked(&shape)`
/// (after all checks the tiling and the shape of every shard), `only_ndim()`, `tiles(ndim)`, `is_whole()`, and
/// `in_memory(kind)`.
macro_rules! sharding_over_ordered_devices {
    ($kind:ty) => {
        impl $crate::sharding::Sharding for $kind {
            fn num_devices(&self) -> usize {
                self.order().len()
            }
            fn device_order(&self) -> $crate::Result<$crate::DeviceMesh> {
                Ok(self.order().mesh.clone())
            }
            fn device_set(&self) -> $crate::Result<$crate::sharding::Devices> {
                Ok(self.order().devices())
            }
            fn addressable_devices(&self) -> $crate::Result<$crate::sharding::Devices> {
                let process = $crate::Scope::current().process();
                Ok($crate::sharding::Devices::of_process(&self.order().mesh, process))
            }
            fn devices_indices_map(
                &self,
                shape: &$crate::Shape,
            ) -> $crate::Result<$crate::sharding::IndicesMap> {
                $crate::sharding::IndicesMap::new(self.device_set()?, self.checked(shape)?.0, shape)
            }
            fn addressable_devices_indices_map(
                &self,
                shape: &$crate::Shape,
            ) -> $crate::Result<$crate::sharding::IndicesMap> {
                $crate::sharding::IndicesMap::new(self.addressable_devices()?, self.checked(shape)?.0, shape)
            }
            fn shard_shape(&self, shape: &$crate::Shape) -> $crate::Result<$crate::Shape> {
                Ok(self.checked(shape)?.1)
            }
            fn shard_shape_of(
                &self,
                shape: &$crate::Shape,
                device: $crate::Device,
            ) -> $crate::Result<$crate::Shape> {
                $crate::sharding::tiling::position_in(&self.order().mesh, device, self)?;
                self.shard_shape(shape)
            }
            fn tensor_ndim(&self) -> Option<usize> {
                self.only_ndim()
            }
            fn is_equivalent_to(
                &self,
                other: &dyn $crate::sharding::Sharding,
                ndim: usize,
            ) -> $crate::Result<bool> {
                $crate::sharding::equivalent(self, other, ndim)
            }
            fn is_fully_replicated(&self) -> bool {
                self.is_whole()
            }
            fn is_fully_addressable(&self) -> $crate::Result<bool> {
                Ok(self.order().mesh.is_all_of($crate::Scope::current().process()))
            }
            fn memory_kind(&self) -> Option<$crate::MemoryKind> {
                Some(self.order().memory)
            }
            fn with_memory_kind(
                &self,
                kind: Option<$crate::MemoryKind>,
            ) -> $crate::Result<::std::sync::Arc<dyn $crate::sharding::Sharding>> {
                Ok(::std::sync::Arc::new(self.clone().in_memory(kind.unwrap_or_default())?))
            }
            fn tiling(&self, ndim: usize) -> $crate::Result<$crate::sharding::Tiling> {
                self.tiles(ndim)
            }
        }

        impl ::std::fmt::Debug for $kind {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(super) use sharding_over_ordered_devices;
