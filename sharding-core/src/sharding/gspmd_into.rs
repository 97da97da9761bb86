//! HLO-style shardings on devices as shardings of the other kinds, and these as each other: lossless, or an error of kind
//! [`ErrorKind::Conversion`](crate::ErrorKind::Conversion).

use super::gspmd_from::no_form;
use super::hlo::{HloKind, MeshAxes, Subgroup, TileAssignment};
use super::{
    GspmdSharding, NamedSharding, PmapAxis, PmapMeshAxis, PmapSharding, PmapSpec, PositionalSharding,
    Sharding, SingleDeviceSharding,
};
use crate::placement::sharded;
use crate::{AxisType, Device, DeviceMapping, DeviceMesh, Error, Place, Places, Result};
use smallvec::smallvec;

impl GspmdSharding {
    /// A device mapping with the same indices on every device: on the mesh that the sharding was made on or one with an axis for
    /// each factor of the tiles, in whichever order fits; where no such mesh says it, on the same devices in the order of the tiles.
    ///
    /// ```
    /// use sharding_core::{BackendKind, DeviceMesh, GspmdSharding, Shape, Sharding};
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [4], ["x"])?;
    /// let sharding = GspmdSharding::on(&mesh, "{devices=[2,2]0,1,3,2}".parse()?)?;
    /// let mapping = sharding.spread()?;
    /// let shape = Shape::from([2, 2]);
    /// let indices = mapping.devices_indices_map(&shape)?;
    /// for (device, region) in sharding.devices_indices_map(&shape)? {
    ///     assert_eq!(indices.of(device)?, region);
    /// }
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) if something is manual, or nothing is said.
    pub fn spread(&self) -> Result<DeviceMapping> {
        if self.hlo().kind() == HloKind::Manual || self.hlo().subgroups().contains(&Subgroup::Manual) {
            return Err(no_form(
                self,
                "DeviceMapping",
                "it has no manual placement",
                "keep the GspmdSharding",
            ));
        }
        match (NamedSharding::try_from(self), self.hlo().tiles()) {
            (Ok(named), _) => named.spread(),
            (Err(_), Some(tiles)) => self.in_order_of(tiles),
            (Err(error), None) => Err(error),
        }
    }

    /// The devices in the order of the tiles are a mesh that has an axis for each dimension.
    fn in_order_of(&self, tiles: &TileAssignment) -> Result<DeviceMapping> {
        let data = self.hlo().data_dims().map_or(0, <[usize]>::len);
        let (mut shape, mut names, mut places) = (Vec::new(), Vec::new(), Places::new());
        for (dim, size) in tiles.dims().iter().enumerate().filter(|(_, size)| **size > 1) {
            let group = dim.checked_sub(data).and_then(|at| self.hlo().subgroups().get(at));
            shape.push(*size);
            names.push(format!("axis{dim}"));
            places.push(match group {
                None => sharded(dim),
                Some(Subgroup::Unreduced) => Place::PARTIAL,
                Some(Subgroup::Replicated | Subgroup::Manual) => Place::Replicated,
            });
        }
        let ordered = self.order();
        let devices: Vec<Device> = tiles.devices().filter_map(|number| ordered.mesh.device(number)).collect();
        let mesh = DeviceMesh::new(&devices, &shape, &names)
            .map_err(|error| no_form(self, "mesh", error.message(), error.fix().unwrap_or_default()))?;
        Ok(DeviceMapping::new(&mesh, places)?.with_memory_kind(ordered.memory))
    }

    /// A mesh that can say this, and what its axes do: the mesh that it was made on, or else the same devices with an axis for
    /// each factor of the tile assignment.
    fn spelled(&self) -> Result<(DeviceMesh, MeshAxes)> {
        let mesh = &self.order().mesh;
        match self.hlo().kind() {
            HloKind::Maximal => Ok((mesh.clone(), MeshAxes::default())),
            HloKind::Tiled => match self.hlo().mesh_axes(mesh.shape()) {
                Ok(axes) => Ok((mesh.clone(), axes)),
                Err(_) => self.factored(),
            },
            _ => Ok((mesh.clone(), self.hlo().mesh_axes(mesh.shape())?)),
        }
    }

    fn factored(&self) -> Result<(DeviceMesh, MeshAxes)> {
        let factors = self.factors().ok_or_else(|| {
            no_form(
                self,
                "mesh",
                "its devices are in no order of axes",
                "keep the GspmdSharding, or a PositionalSharding",
            )
        })?;
        let by_stride = by_stride(&factors);
        let shape: Vec<usize> = by_stride.iter().map(|(size, _)| *size).collect();
        let names: Vec<String> = (0..shape.len()).map(|axis| format!("axis{axis}")).collect();
        let mesh = self
            .order()
            .mesh
            .with_grid(shape, names)
            .map_err(|error| no_form(self, "mesh", error.message(), error.fix().unwrap_or_default()))?;
        let axes = self.hlo().mesh_axes(mesh.shape())?;
        Ok((mesh, axes))
    }

    /// Size and stride of the factors of each dimension of the grid, the most significant first.
    fn factors(&self) -> Option<Vec<Vec<(usize, usize)>>> {
        let dims = self.hlo().tiles()?.dims().len();
        (0..dims).map(|dim| Some(self.parts(dim).as_digits()?.to_vec())).collect()
    }

    /// The error if devices hold what another kind cannot say.
    fn check_plain(&self, kind: &str) -> Result<()> {
        let plain = match self.hlo().kind() {
            HloKind::Replicated | HloKind::Maximal => true,
            HloKind::Tiled => self.hlo().subgroups().iter().all(|group| *group == Subgroup::Replicated),
            HloKind::Unreduced => self.is_fully_replicated(),
            HloKind::Tuple | HloKind::Manual | HloKind::Unknown => false,
        };
        if plain {
            return Ok(());
        }
        Err(no_form(
            self,
            kind,
            "it cannot say what is manual, unreduced or unknown",
            "keep the GspmdSharding",
        ))
    }
}

/// Factors in the order of the devices: the axes of a mesh that has them.
fn by_stride(factors: &[Vec<(usize, usize)>]) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = factors.iter().flatten().copied().collect();
    all.sort_unstable_by_key(|(_, stride)| std::cmp::Reverse(*stride));
    all
}

/// On the mesh that the sharding was made on, if its axes can say it; else on the same devices with an axis for each factor of
/// the tile assignment, named `axis0` and so on; with an entry for every axis of the tensor. [`GspmdSharding::to_named`] takes a
/// mesh. Axes that are unreduced become
/// [`AxisType::Explicit`], and manual ones [`AxisType::Manual`].
///
/// # Errors
/// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) if devices are in no order of axes, or nothing is said.
impl TryFrom<&GspmdSharding> for NamedSharding {
    type Error = Error;
    fn try_from(sharding: &GspmdSharding) -> Result<Self> {
        let (mut mesh, axes) = sharding.spelled()?;
        let typed = [(&axes.unreduced, AxisType::Explicit), (&axes.manual, AxisType::Manual)];
        for (axis, axis_type) in
            typed.into_iter().flat_map(|(axes, kind)| axes.iter().map(move |axis| (*axis, kind)))
        {
            mesh = mesh.with_axis_type(mesh.axis_name(axis), axis_type)?;
        }
        sharding.named(&mesh, &axes, axes.split.len())
    }
}

/// On the mesh that the sharding was made on, if its axes can say it; else on the same devices with an axis for each factor.
///
/// # Errors
/// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) if devices are in no order of axes, the factors of a tensor axis are not in the order of the
/// devices ([`GspmdSharding::spread`] reorders them), something is manual, or nothing is said.
impl TryFrom<&GspmdSharding> for DeviceMapping {
    type Error = Error;
    fn try_from(sharding: &GspmdSharding) -> Result<Self> {
        let (mesh, axes) = sharding.spelled()?;
        let refused = |why: &str, fix: &str| Err(no_form(sharding, "DeviceMapping", why, fix));
        if !axes.manual.is_empty() {
            return refused("it has no manual placement", "keep the GspmdSharding");
        }
        let mut places: Places = smallvec![Place::Replicated; mesh.ndim()];
        let mut put =
            |axis: usize, place: Place| places.get_mut(axis).into_iter().for_each(|slot| *slot = place);
        for (tensor_axis, entry) in axes.split.iter().enumerate() {
            if !entry.is_sorted() {
                return refused(
                    &format!("the factors of tensor axis {tensor_axis} are not in the order of the devices"),
                    "sharding.spread()?, which orders the mesh so",
                );
            }
            entry.iter().for_each(|axis| put(*axis, sharded(tensor_axis)));
        }
        axes.unreduced.iter().for_each(|axis| put(*axis, Place::PARTIAL));
        Ok(DeviceMapping::new(&mesh, places)?.with_memory_kind(sharding.order().memory))
    }
}

/// # Errors
/// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) if it has several devices, or something is manual or unknown.
impl TryFrom<&GspmdSharding> for SingleDeviceSharding {
    type Error = Error;
    fn try_from(sharding: &GspmdSharding) -> Result<Self> {
        sharding.check_plain("SingleDeviceSharding")?;
        let ordered = sharding.order();
        match (ordered.len(), ordered.mesh.device(0)) {
            (1, Some(device)) => Self::in_memory(device, ordered.memory),
            (n, _) => Err(no_form(
                sharding,
                "SingleDeviceSharding",
                &format!("it has {n} devices"),
                "keep the GspmdSharding",
            )),
        }
    }
}

/// An array of the shape of the tiles; of one set where everything is on every device.
///
/// # Errors
/// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) if something is manual, unreduced or unknown.
impl TryFrom<&GspmdSharding> for PositionalSharding {
    type Error = Error;
    fn try_from(sharding: &GspmdSharding) -> Result<Self> {
        sharding.check_plain("PositionalSharding")?;
        let tiles = match (sharding.hlo().tiles(), sharding.hlo().subgroups()) {
            (Some(tiles), []) => tiles.reshape(&[tiles.dims(), &[1]].concat())?,
            (Some(tiles), _) => tiles.clone(),
            (None, _) => TileAssignment::row_major([1, sharding.order().len()])?,
        };
        Self::build(sharding.order().clone(), tiles)
    }
}

/// Every axis that is cut is chunked into single indices, which is what this kind can say: the result takes no other extents.
///
/// # Errors
/// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) if devices are in no order of axes, or something is manual, unreduced or unknown.
impl TryFrom<&GspmdSharding> for PmapSharding {
    type Error = Error;
    fn try_from(sharding: &GspmdSharding) -> Result<Self> {
        sharding.check_plain("PmapSharding")?;
        let Some(dims) = sharding.hlo().data_dims() else {
            let copies = PmapMeshAxis::Replicated(sharding.order().len());
            return Self::build(sharding.order().clone(), PmapSpec::new([], [copies])?);
        };
        let factors = sharding.factors().ok_or_else(|| {
            no_form(sharding, "PmapSharding", "its devices are in no order of axes", "keep the GspmdSharding")
        })?;
        let data = factors.get(..dims.len()).unwrap_or(&factors);
        let axes = data.iter().map(|factors| match factors.as_slice() {
            [] => PmapAxis::NoSharding,
            factors => PmapAxis::Chunked(factors.iter().map(|(size, _)| *size).collect()),
        });
        let chunked: Vec<&(usize, usize)> = data.iter().flatten().collect();
        let mesh = by_stride(&factors).into_iter().map(|factor| {
            match chunked.iter().position(|chunk| **chunk == factor) {
                Some(chunk_axis) => PmapMeshAxis::ShardedAxis(chunk_axis),
                None => PmapMeshAxis::Replicated(factor.0),
            }
        });
        Self::build(sharding.order().clone(), PmapSpec::new(axes, mesh)?)
    }
}

/// The conversions between two other kinds, by way of what lies where.
macro_rules! by_way_of_tiles {
    ($($from:ty, $tiles:path => $($into:ty),+;)+) => {$($(
        /// By way of a [`GspmdSharding`].
        ///
        /// # Errors
        /// [`ErrorKind::Conversion`](crate::ErrorKind::Conversion) where the way there or on is one.
        impl TryFrom<&$from> for $into {
            type Error = Error;
            fn try_from(sharding: &$from) -> Result<Self> {
                Self::try_from(&$tiles(sharding)?)
            }
        }
    )+)+};
}
/// One device has such a form always.
fn of_one(sharding: &SingleDeviceSharding) -> Result<GspmdSharding> {
    Ok(GspmdSharding::from(sharding))
}
by_way_of_tiles! {
    SingleDeviceSharding, of_one => NamedSharding, DeviceMapping, PositionalSharding, PmapSharding;
    NamedSharding, GspmdSharding::try_from => SingleDeviceSharding, PositionalSharding, PmapSharding;
    DeviceMapping, GspmdSharding::try_from => SingleDeviceSharding, PositionalSharding, PmapSharding;
    PositionalSharding, GspmdSharding::try_from => NamedSharding, DeviceMapping, SingleDeviceSharding, PmapSharding;
    PmapSharding, GspmdSharding::try_from => NamedSharding, DeviceMapping, SingleDeviceSharding, PositionalSharding;
}
