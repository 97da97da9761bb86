//! The mapping of a tensor as a sharding.

use super::tiling::{mesh_digits, position_in};
use super::{Devices, IndicesMap, MemoryKind, Sharding, Tiling, equivalent};
use crate::mapping::splitting_axes;
use crate::{Device, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Result, Scope, Shape};
use std::sync::Arc;

impl DeviceMapping {
    fn checked_for(&self, shape: &Shape) -> Result<Tiling> {
        let beyond =
            self.places().iter().filter_map(|place| place.tensor_axis()).find(|axis| *axis >= shape.len());
        if let Some(axis) = beyond {
            return Err(Error::new(
                ErrorKind::Dimensions,
                format!(
                    "{self} is for tensors of at least {} axes, not for the shape {shape} of {}",
                    axis + 1,
                    shape.len()
                ),
            )
            .with_fix(match shape.len() {
                0 => "place it Replicated: a zero-dimensional tensor has no axis to split".to_owned(),
                n => format!("name a tensor axis in 0..{n}"),
            }));
        }
        self.check(shape)?;
        self.tiling(shape.len())
    }
}

/// Splits are balanced, so shards may differ: then [`shard_shape`](Sharding::shard_shape) is an error, and
/// [`shard_shape_of`](Sharding::shard_shape_of) and the index maps answer. Custom placements are asked for their
/// ranges; besides the errors of the trait, those of [`DeviceMapping::check`] come back.
///
/// By what lies where a mesh axis of size 1 splits nothing, so
/// [`is_fully_replicated`](Sharding::is_fully_replicated) of the trait may hold where
/// [`DeviceMapping::is_fully_replicated`], which is about placements, does not.
impl Sharding for DeviceMapping {
    fn num_devices(&self) -> usize {
        self.mesh().num_devices()
    }
    fn device_order(&self) -> Result<DeviceMesh> {
        Ok(self.mesh().clone())
    }
    fn device_set(&self) -> Result<Devices> {
        Ok(Devices::all(self.mesh()))
    }
    fn addressable_devices(&self) -> Result<Devices> {
        Ok(Devices::of_process(self.mesh(), Scope::current().process()))
    }
    fn devices_indices_map(&self, shape: &Shape) -> Result<IndicesMap> {
        IndicesMap::new(self.device_set()?, self.checked_for(shape)?, shape)
    }
    fn addressable_devices_indices_map(&self, shape: &Shape) -> Result<IndicesMap> {
        IndicesMap::new(self.addressable_devices()?, self.checked_for(shape)?, shape)
    }
    fn shard_shape(&self, shape: &Shape) -> Result<Shape> {
        let tiling = self.checked_for(shape)?;
        tiling.even_shape(shape).map_err(|axis| {
            Error::new(
                ErrorKind::Indivisible,
                format!(
                    "{self} cuts tensor axis {axis} of size {} (shape {shape}) {} ways into shards that differ",
                    shape.extent(axis),
                    tiling.ways(axis)
                ),
            )
            .with_fix("sharding.shard_shape_of(&shape, device), which answers for one device")
        })
    }
    fn shard_shape_of(&self, shape: &Shape, device: Device) -> Result<Shape> {
        let position = position_in(self.mesh(), device, self)?;
        Ok(self.checked_for(shape)?.local_shape(shape, position))
    }
    fn tensor_ndim(&self) -> Option<usize> {
        None
    }
    fn is_equivalent_to(&self, other: &dyn Sharding, ndim: usize) -> Result<bool> {
        equivalent(self, other, ndim)
    }
    fn is_fully_replicated(&self) -> bool {
        let places = self.places().iter().zip(self.mesh().shape());
        places.into_iter().all(|(place, size)| *place == Place::Replicated || *size == 1)
    }
    fn is_fully_addressable(&self) -> Result<bool> {
        Ok(self.mesh().is_all_of(Scope::current().process()))
    }
    fn memory_kind(&self) -> Option<MemoryKind> {
        Some(DeviceMapping::memory_kind(self))
    }
    fn with_memory_kind(&self, kind: Option<MemoryKind>) -> Result<Arc<dyn Sharding>> {
        let kind = kind.unwrap_or_default();
        if let Some(device) = self.mesh().device(0) {
            kind.checked(device.kind)?;
        }
        Ok(Arc::new(DeviceMapping::with_memory_kind(self.clone(), kind)))
    }
    fn tiling(&self, ndim: usize) -> Result<Tiling> {
        let (mesh, places) = (self.mesh(), self.places());
        let mut tiling = Tiling::replicated(mesh.num_devices(), ndim);
        for (i, place) in places.iter().enumerate() {
            let first = places.iter().position(|other| other == place) == Some(i);
            tiling = match (place.tensor_axis(), place) {
                // Several mesh axes of one placement count as one, in mesh order.
                _ if !first => tiling,
                (_, Place::Replicated) => tiling,
                (Some(axis), Place::Custom(custom)) => {
                    tiling.cut_by(axis, mesh_digits(mesh.shape(), [i]), Some(custom))?
                }
                (Some(axis), _) => {
                    tiling.cut(axis, mesh_digits(mesh.shape(), splitting_axes(places, axis)))?
                }
                (None, _) => {
                    let alike = (0..places.len()).filter(|other| places.get(*other) == Some(place));
                    tiling.with_terms(*place, mesh_digits(mesh.shape(), alike))
                }
            };
        }
        Ok(tiling)
    }
}
