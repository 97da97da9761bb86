//! Shardings of the other kinds as HLO-style shardings on devices: lossless, or an error of kind [`ErrorKind::Conversion`].
//!
//! Conversions keep what lies where, in which memory, and the order of the devices. How a kind spells that (names, shapes of
//! arrays, several chunk axes of one tensor axis) comes back in its canonical form.

use super::hlo::{HloSharding, MeshAxes, Subgroup};
use super::ordered::Ordered;
use super::{
    GspmdSharding, MemoryKind, NamedSharding, PmapAxis, PmapSharding, PositionalSharding, Sharding,
    SingleDeviceSharding,
};
use crate::{DeviceMapping, DeviceMesh, Error, ErrorKind, Place, ReduceOp, Result};
use std::fmt::Display;

/// The error that a sharding has no form of another kind.
pub(super) fn no_form(sharding: &dyn Display, kind: &str, why: &str, fix: &str) -> Error {
    Error::new(ErrorKind::Conversion, format!("{sharding} has no {kind}: {why}")).with_fix(fix)
}

impl GspmdSharding {
    /// A sharding by names for tensors of `ndim` axes; one that splits something takes no others.
    ///
    /// Unreduced mesh axes are an unreduced subgroup, manual ones a manual one; reduced axes replicate.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`] on an abstract mesh, or for an unconstrained entry; as [`NamedSharding::hlo`].
    pub fn of_named(sharding: &NamedSharding, ndim: usize) -> Result<Self> {
        sharding.spec().check_said()?;
        let mesh = sharding.mesh().map_err(|error| {
            no_form(sharding, "form on devices", "its mesh is abstract", error.fix().unwrap_or_default())
        })?;
        Self::build(in_memory(mesh, Sharding::memory_kind(sharding).unwrap_or_default()), sharding.hlo(ndim)?)
    }
}

/// Devices and memory that another sharding has already.
fn in_memory(mesh: &DeviceMesh, memory: MemoryKind) -> Ordered {
    Ordered { mesh: mesh.clone(), memory }
}

/// For tensors of as many axes as the spec has entries; [`GspmdSharding::of_named`] takes any number.
///
/// # Errors
/// As [`GspmdSharding::of_named`].
impl TryFrom<&NamedSharding> for GspmdSharding {
    type Error = Error;
    fn try_from(sharding: &NamedSharding) -> Result<Self> {
        Self::of_named(sharding, sharding.spec().entries().len())
    }
}

/// For tensors of axes up to the last that is split, whose extents divide: a mapping takes more axes and any extents.
///
/// # Errors
/// [`ErrorKind::Conversion`] for a placement that is not Replicated, Sharded, or Partial of sums.
impl TryFrom<&DeviceMapping> for GspmdSharding {
    type Error = Error;
    fn try_from(mapping: &DeviceMapping) -> Result<Self> {
        let mut axes = MeshAxes::default();
        for (mesh_axis, place) in mapping.places().iter().enumerate() {
            match place {
                Place::Replicated => {}
                Place::Partial(ReduceOp::Sum) => axes.unreduced.push(mesh_axis),
                Place::Sharded(tensor_axis) => {
                    let tensor_axis = usize::from(*tensor_axis);
                    if axes.split.len() <= tensor_axis {
                        axes.split.resize(tensor_axis + 1, Vec::new());
                    }
                    if let Some(entry) = axes.split.get_mut(tensor_axis) {
                        entry.push(mesh_axis);
                    }
                }
                Place::Partial(_) | Place::Unknown | Place::Custom(_) => {
                    let mesh = mapping.mesh();
                    return Err(no_form(
                        mapping,
                        "GspmdSharding",
                        &format!("a tile assignment cannot say {place}"),
                        "keep the DeviceMapping, or transfer_to Replicated, Sharded or Partial(sum) first",
                    )
                    .with_mesh_axis(mesh.axis_name(mesh_axis), mesh.size(mesh_axis)));
                }
            }
        }
        let mesh = mapping.mesh();
        let hlo = HloSharding::from_mesh_axes(mesh.shape(), &axes).map_err(|error| {
            no_form(mapping, "GspmdSharding", "no tensor has so many axes", error.fix().unwrap_or_default())
        })?;
        Self::build(in_memory(mesh, mapping.memory_kind()), hlo)
    }
}

/// Everything on a list of one device.
impl From<&SingleDeviceSharding> for GspmdSharding {
    fn from(sharding: &SingleDeviceSharding) -> Self {
        let memory = Sharding::memory_kind(sharding).unwrap_or_default();
        Self::replicated_on(in_memory(&DeviceMesh::single(sharding.device()), memory))
    }
}

/// # Errors
/// [`ErrorKind::Conversion`] for an array of more axes than a tensor has.
impl TryFrom<&PositionalSharding> for GspmdSharding {
    type Error = Error;
    fn try_from(sharding: &PositionalSharding) -> Result<Self> {
        let tiles = sharding.tiles_with_sets().clone();
        let hlo = HloSharding::tiled(tiles, [Subgroup::Replicated]).map_err(|error| {
            no_form(sharding, "GspmdSharding", error.message(), error.fix().unwrap_or_default())
        })?;
        Self::build(sharding.order().clone(), hlo)
    }
}

/// The tiles only: that each device holds one index of what is chunked is not kept, so the result takes other extents too.
///
/// # Errors
/// [`ErrorKind::Conversion`] for an unstacked axis, which no other kind drops.
impl TryFrom<&PmapSharding> for GspmdSharding {
    type Error = Error;
    fn try_from(sharding: &PmapSharding) -> Result<Self> {
        let spec = sharding.spec();
        if let Some(axis) = spec.axes().iter().position(|axis| matches!(axis, PmapAxis::Unstacked(_))) {
            return Err(no_form(
                sharding,
                "other form",
                &format!("its shards lack tensor axis {axis}"),
                "use Chunked, which keeps the axis with an extent of 1",
            ));
        }
        let axes = MeshAxes { split: spec.split(), ..MeshAxes::default() };
        let hlo = HloSharding::from_mesh_axes(&spec.mesh_shape(), &axes).map_err(|error| {
            no_form(sharding, "GspmdSharding", error.message(), error.fix().unwrap_or_default())
        })?;
        Self::build(sharding.order().clone(), hlo)
    }
}
