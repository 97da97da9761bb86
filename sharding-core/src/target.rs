//! What says where a tensor lies.

use crate::{
    DeviceMapping, DeviceMesh, NamedMapping, NamedSharding, PartitionSpec, Result, Shape, Sharding,
    SingleDeviceSharding,
};
use std::borrow::Cow;

/// What says where a tensor of some shape lies: a [`DeviceMapping`], [`NamedMapping`], [`NamedSharding`] or
/// [`SingleDeviceSharding`], or a bare [`PartitionSpec`], which is a [`NamedSharding`] on the mesh that
/// [`set_mesh`](crate::set_mesh) put in force. References to all of these are, too; other shardings convert to a
/// [`DeviceMapping`].
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

/// A [`NamedSharding`] on the mesh in force.
impl Target for PartitionSpec {
    fn mapping_for(&self, shape: &Shape) -> Result<Cow<'_, DeviceMapping>> {
        let mapping = NamedSharding::scoped(self.clone())?.mapping_for(shape)?.into_owned();
        Ok(Cow::Owned(mapping))
    }
}
