//! What says where a tensor lies.

use crate::{
    DeviceMapping, DeviceMesh, GspmdSharding, NamedMapping, NamedSharding, PartitionSpec, PmapSharding,
    PositionalSharding, Result, Shape, Sharding, SingleDeviceSharding,
};
use std::borrow::Cow;
use std::sync::Arc;

/// What says where a tensor of some shape lies: any [`Sharding`], a [`NamedMapping`], or a bare [`PartitionSpec`], which is a
/// [`NamedSharding`] on the mesh that [`set_mesh`](crate::set_mesh) put in force. References to all of these are, too.
///
/// Tensors lie by a [`DeviceMapping`], so this is the one that puts the same indices on the same devices. Where the order of mesh
/// axes or devices does not allow for that, it is on a mesh of the same devices in another order.
pub trait Target {
    /// The mapping under which a tensor of this shape lies.
    ///
    /// # Errors
    /// What does not fit the shape, or has no mesh.
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>>;
}

impl<T: Target + ?Sized> Target for &T {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        (**self).mapping_for(shape)
    }
}

impl<T: Target + ?Sized> Target for Arc<T> {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        (**self).mapping_for(shape)
    }
}

impl<T: Target + ?Sized> Target for Box<T> {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        (**self).mapping_for(shape)
    }
}

impl Target for DeviceMapping {
    fn mapping_for(&self, _: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        Ok(Cow::Borrowed(self))
    }
}

impl Target for NamedMapping {
    fn mapping_for(&self, _: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        Ok(Cow::Borrowed(self.mapping()))
    }
}

/// Cut evenly or not at all; where an entry names its mesh axes in another order than the mesh, on
/// [`spread`](NamedSharding::spread) devices.
impl Target for NamedSharding {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        self.shard_shape(shape)?;
        self.spread().map(Cow::Owned)
    }
}

impl Target for SingleDeviceSharding {
    fn mapping_for(&self, _: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        let mapping = DeviceMapping::replicated(&DeviceMesh::single(self.device()));
        Ok(Cow::Owned(mapping.with_memory_kind(self.memory_kind().unwrap_or_default())))
    }
}

/// [`spread`](GspmdSharding::spread).
impl Target for GspmdSharding {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        self.shard_shape(shape)?;
        self.spread().map(Cow::Owned)
    }
}

/// As the [`GspmdSharding`] that it converts to.
impl Target for PositionalSharding {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        self.shard_shape(shape)?;
        GspmdSharding::try_from(self)?.spread().map(Cow::Owned)
    }
}

/// As the [`GspmdSharding`] that it converts to.
impl Target for PmapSharding {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        self.shard_shape(shape)?;
        GspmdSharding::try_from(self)?.spread().map(Cow::Owned)
    }
}

/// A [`NamedSharding`] on the mesh in force.
impl Target for PartitionSpec {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        let mapping = NamedSharding::scoped(self.clone())?.mapping_for(shape)?.into_owned();
        Ok(Cow::Owned(mapping))
    }
}
