//! Conversions between shardings by name and mappings: lossless, or an error of kind [`ErrorKind::Conversion`].

use super::NamedSharding;
use crate::placement::sharded;
use crate::{
    DeviceMapping, DeviceMesh, Error, ErrorKind, NamedMapping, PartitionSpec, Place, Places, Result,
    Sharding, SpecEntry,
};
use smallvec::{SmallVec, smallvec};

impl NamedSharding {
    /// A device mapping with the same indices on every device, of any sharding by name with devices: where an entry does
    /// not name its mesh axes in mesh order, on the same devices as a mesh of another axis order.
    ///
    /// The axes of that mesh are those of the entries, in the order of the spec, and then the others.
    ///
    /// ```
    /// use sharding_core::{BackendKind, DeviceMesh, NamedSharding, Shape, Sharding, spec};
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [4, 2], ["x", "y"])?;
    /// let sharding = NamedSharding::new(&mesh, spec![("y", "x")])?;
    /// let mapping = sharding.spread()?;
    /// assert_eq!(mapping.mesh().to_string(), "DeviceMesh(y=2, x=4)");
    /// let shape = Shape::from([8]);
    /// let indices = mapping.devices_indices_map(&shape)?;
    /// for (device, region) in sharding.devices_indices_map(&shape)? {
    ///     assert_eq!(indices.of(device)?, region);
    /// }
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] on an abstract mesh; [`ErrorKind::Conversion`] for an unconstrained entry, which does not say what lies
    /// where, and if the spec splits a tensor axis that no tensor has.
    pub fn spread(&self) -> Result<DeviceMapping> {
        let mesh = self.mesh()?;
        if self.is_in_mesh_order() {
            return self.mapping_on(mesh);
        }
        let named = self.spec().entries().iter().flat_map(|entry| self.axes_of(entry));
        self.mapping_on(&mesh.with_first(named)?.0)
    }

    /// Whether every entry names its mesh axes in mesh order; those of size 1 may stand anywhere.
    fn is_in_mesh_order(&self) -> bool {
        self.spec().entries().iter().all(|entry| self.in_order(entry))
    }
    fn in_order(&self, entry: &SpecEntry) -> bool {
        let split = |axis: &usize| self.mesh_shape().get(*axis).is_some_and(|size| *size > 1);
        self.axes_of(entry).filter(split).is_sorted()
    }

    /// The placements that the spec says, on a mesh of the same axes in an order that fits.
    fn mapping_on(&self, mesh: &DeviceMesh) -> Result<DeviceMapping> {
        self.spec().check_said()?;
        let mut places: Places = smallvec![Place::Replicated; mesh.ndim()];
        let mut put = |name: &str, place: Place| -> Result<()> {
            if let Some(slot) = places.get_mut(mesh.axis_index(name)?) {
                *slot = place;
            }
            Ok(())
        };
        for (tensor_axis, entry) in self.spec().entries().iter().enumerate() {
            if entry.names().len() > 0 && tensor_axis >= crate::MAX_TENSOR_AXES {
                return Err(Error::new(
                    ErrorKind::Conversion,
                    format!(
                        "{self} splits tensor axis {tensor_axis}; a tensor has at most {} axes",
                        crate::MAX_TENSOR_AXES
                    ),
                )
                .with_fix("write fewer entries"));
            }
            entry.names().try_for_each(|name| put(name, sharded(tensor_axis)))?;
        }
        self.spec().unreduced().try_for_each(|name| put(name, Place::PARTIAL))?;
        let memory = Sharding::memory_kind(self).unwrap_or_default();
        Ok(DeviceMapping::new(mesh, places)?.with_memory_kind(memory))
    }
}

/// The same placement as a device mapping: unreduced axes are Partial sums; reduced axes replicate.
///
/// # Errors
/// [`ErrorKind::Conversion`] if several names of one entry are not in mesh order ([`NamedSharding::spread`] takes any
/// order), an entry is unconstrained, or the mesh is abstract.
impl TryFrom<&NamedSharding> for DeviceMapping {
    type Error = Error;
    fn try_from(sharding: &NamedSharding) -> Result<Self> {
        let mesh = devices_of(sharding)?;
        if let Some(entry) = sharding.spec().entries().iter().find(|entry| !sharding.in_order(entry)) {
            return Err(Error::new(
                ErrorKind::Conversion,
                format!("{entry} in {sharding} is not in mesh order; a device mapping has no other order"),
            )
            .with_fix("sharding.spread()?, which orders the axes of the mesh so"));
        }
        sharding.mapping_on(mesh)
    }
}

fn devices_of(sharding: &NamedSharding) -> Result<&DeviceMesh> {
    sharding.mesh().map_err(|error| {
        Error::new(ErrorKind::Conversion, format!("{sharding} has no devices to map to"))
            .with_fix(error.fix().unwrap_or_default())
    })
}

/// # Errors
/// [`ErrorKind::Conversion`] for placements that names cannot spell (Partial of another op than sum, Unknown, custom
/// ones), and for Partial on a mesh axis that is not [`AxisType::Explicit`](crate::AxisType::Explicit).
impl TryFrom<&DeviceMapping> for NamedSharding {
    type Error = Error;
    fn try_from(mapping: &DeviceMapping) -> Result<Self> {
        named(mapping, PartitionSpec::try_from(mapping)?)
    }
}

/// The entries as they are written, without names that the mesh does not have, and in mesh order, which a named mapping
/// means whatever order it is written in.
///
/// # Errors
/// As from a [`DeviceMapping`].
impl TryFrom<&NamedMapping> for NamedSharding {
    type Error = Error;
    fn try_from(mapping: &NamedMapping) -> Result<Self> {
        let mesh = mapping.mesh();
        let axis_of = |name: &str| mesh.axis_names().position(|known| known == name);
        let entries = mapping.spec().entries().iter().map(|entry| {
            let mut axes: SmallVec<[usize; 4]> = entry.names().filter_map(axis_of).collect();
            axes.sort_unstable();
            SpecEntry::several(axes.into_iter().map(|axis| mesh.axis_name(axis)))
        });
        let known = |name: &&str| axis_of(name).is_some();
        let spec = PartitionSpec::new(entries)
            .with_unreduced(mapping.unreduced().filter(known))?
            .with_reduced(mapping.spec().reduced().filter(known))?;
        named(mapping.mapping(), spec)
    }
}

fn named(mapping: &DeviceMapping, spec: PartitionSpec) -> Result<NamedSharding> {
    let memory = mapping.memory_kind();
    let sharding = NamedSharding::new(mapping.mesh(), spec).and_then(|sharding| sharding.in_memory(memory));
    sharding.map_err(|error| {
        let fix = error.fix().unwrap_or_default().to_owned();
        Error::new(ErrorKind::Conversion, format!("{mapping} has no sharding by names"))
            .with_fix(fix)
            .with_source(error)
    })
}

/// # Errors
/// [`ErrorKind::Conversion`] if several names of one entry are not in mesh order, which is the only order that a named
/// mapping has; an entry is unconstrained, or the mesh is abstract.
impl TryFrom<&NamedSharding> for NamedMapping {
    type Error = Error;
    fn try_from(sharding: &NamedSharding) -> Result<Self> {
        DeviceMapping::try_from(sharding)?;
        let memory = Sharding::memory_kind(sharding).unwrap_or_default();
        Ok(NamedMapping::new(devices_of(sharding)?, sharding.spec().clone())?.in_memory(memory))
    }
}
