//! HLO-style shardings on devices.

use super::hlo::{HloKind, HloSharding, MeshAxes, Subgroup};
use super::ordered::{Grid, Ordered, even, sharding_over_ordered_devices, wrong_dimensions};
use super::{Devices, MemoryKind, NamedSharding, Parts, Tiling};
use crate::{AxisType, Device, DeviceMesh, Error, ErrorKind, PartitionSpec, Place, Result, Shape, SpecEntry};
use std::fmt;
use std::hash::{Hash, Hasher};

/// An [`HloSharding`] on an ordered list of devices: what compilers of the XLA family put out; JAX's sharding of that name.
///
/// Tiled ones take tensors with exactly as many axes as the grid has data dimensions, replicated ones any. A *maximal* one
/// lies on its one device; the other devices of its list hold nothing and are none of its devices. In a *manual* one, whole or
/// subgroup, devices hold things with no known relation: it has no shard shape, and neither has an *unknown* one. A tuple is of
/// several tensors, and is refused.
///
/// ```
/// use sharding_core::GspmdSharding;
/// use sharding_core::{BackendKind, DeviceMesh, NamedSharding, Shape, Sharding, spec};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [4, 2], ["x", "y"])?;
/// let columns = GspmdSharding::on(&mesh, "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}".parse()?)?;
/// assert_eq!(columns.shard_shape(&Shape::from([3, 8]))?, Shape::from([3, 4]));
/// let named = NamedSharding::new(&mesh, spec![None, "y"])?;
/// assert!(columns.is_equivalent_to(&named, 2)?);
/// assert_eq!(columns.to_named(&mesh)?, named);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone)]
pub struct GspmdSharding {
    devices: Ordered,
    // The devices that hold data: all, or the one of a maximal sharding.
    holders: Ordered,
    hlo: HloSharding,
    grid: Option<Grid>,
}

impl GspmdSharding {
    /// A sharding on these devices, whose numbers in it are their places in the list; in their default memory.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] for no device, one twice, or devices of several kinds; as [`GspmdSharding::on`].
    pub fn new(devices: &[Device], hlo: HloSharding) -> Result<Self> {
        Self::build(Ordered::new(devices)?, hlo)
    }

    /// A sharding on the devices of a mesh in row-major order, in their default memory.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if it is for another number of devices, uses one that is not there, or is a tuple;
    /// [`ErrorKind::Overflow`] if its tiles end within a factor of so many devices that no list of them is made.
    pub fn on(mesh: &DeviceMesh, hlo: HloSharding) -> Result<Self> {
        Self::build(Ordered::on(mesh), hlo)
    }

    /// Everything on every device.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] as [`GspmdSharding::new`].
    pub fn get_replicated(devices: &[Device]) -> Result<Self> {
        Self::new(devices, HloSharding::replicated())
    }

    /// The same in another memory.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryKind`], naming the kinds that the devices know.
    pub fn in_memory(self, kind: MemoryKind) -> Result<Self> {
        Ok(Self { devices: self.devices.in_memory(kind)?, holders: self.holders.in_memory(kind)?, ..self })
    }

    pub(super) fn build(devices: Ordered, hlo: HloSharding) -> Result<Self> {
        let n = devices.len();
        let wrong = |what: String, fix: String| {
            Err(Error::new(ErrorKind::Mapping, format!("{hlo} {what}")).with_fix(fix))
        };
        if hlo.kind() == HloKind::Tuple {
            return wrong(
                "is of several tensors".to_owned(),
                "make one GspmdSharding of each of HloSharding::elements".to_owned(),
            );
        }
        if let Some(wanted) = hlo.num_devices()
            && wanted != n
        {
            return wrong(
                format!("is for {wanted} devices, got {n}: {devices}"),
                format!("give {wanted} devices, or a tile assignment of {n}"),
            );
        }
        let mut holders = devices.clone();
        if let Some(number) = hlo.maximal_device() {
            match devices.mesh.device(number) {
                Some(device) => holders.mesh = DeviceMesh::single(device),
                None => {
                    return wrong(
                        format!("is on device {number} of {n}: {devices}"),
                        format!("use a number in 0..{n}"),
                    );
                }
            }
        }
        let grid = hlo.tiles().cloned().map(Grid::new).transpose()?;
        Ok(Self { devices, holders, hlo, grid })
    }

    /// What lies where, by number.
    pub fn hlo(&self) -> &HloSharding {
        &self.hlo
    }
    /// The devices that the numbers count.
    pub fn devices(&self) -> Devices {
        self.devices.devices()
    }

    /// The sharding by names on a mesh of the same devices in the same order, as JAX's `parse_flatten_op_sharding`: no entries
    /// beyond the last that splits. It also takes tensors of more axes.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`] if the mesh has other devices, or no order of its axes gives this; as
    /// [`NamedSharding::new`] (an unreduced axis must be [`AxisType::Explicit`], for one).
    pub fn to_named(&self, mesh: &DeviceMesh) -> Result<NamedSharding> {
        let axes = self.axes_on(mesh)?;
        let used = axes.split.iter().rposition(|entry| !entry.is_empty()).map_or(0, |last| last + 1);
        self.named(mesh, &axes, used)
    }

    /// What the axes of a mesh of the same devices do.
    fn axes_on(&self, mesh: &DeviceMesh) -> Result<MeshAxes> {
        if !mesh.same_devices(&self.holders.mesh) {
            return Err(Error::new(
                ErrorKind::Conversion,
                format!("{self} cannot be said by the axes of {mesh}, which has other devices or another order of them"),
            )
            .with_fix("use a mesh of the same devices, whose row-major order is that of sharding.device_set()"));
        }
        match self.hlo.kind() {
            // On its one device a maximal sharding is a replicated one.
            HloKind::Maximal => Ok(MeshAxes::default()),
            _ => self.hlo.mesh_axes(mesh.shape()),
        }
    }

    /// The names of these axes, in so many entries.
    pub(super) fn named(&self, mesh: &DeviceMesh, axes: &MeshAxes, entries: usize) -> Result<NamedSharding> {
        let is_manual = |axis: &&usize| mesh.axis_types().get(**axis) == Some(&AxisType::Manual);
        if let Some(axis) = axes.manual.iter().find(|axis| !is_manual(axis)) {
            let name = mesh.axis_name(*axis);
            return Err(Error::new(
                ErrorKind::Conversion,
                format!("{self} is manual along the axis '{name}' of {mesh}, which is not of that type"),
            )
            .with_fix("mesh.with_axis_types(..) with AxisType::Manual for this axis"));
        }
        let name = |axis: &usize| mesh.axis_name(*axis).to_owned();
        let entry = |axes: &Vec<usize>| SpecEntry::several(axes.iter().map(name));
        let spec = PartitionSpec::new(axes.split.iter().take(entries).map(entry))
            .with_unreduced(axes.unreduced.iter().map(name))?;
        NamedSharding::new(mesh, spec)?.in_memory(self.holders.memory)
    }

    /// Everything on each of these.
    pub(super) fn replicated_on(devices: Ordered) -> Self {
        Self { holders: devices.clone(), devices, hlo: HloSharding::replicated(), grid: None }
    }
    /// What every device holds along a dimension of the grid.
    pub(super) fn parts(&self, dim: usize) -> Parts {
        self.grid.as_ref().map_or_else(Parts::whole, |grid| grid.parts(dim))
    }
    pub(super) fn order(&self) -> &Ordered {
        &self.holders
    }

    fn is_whole(&self) -> bool {
        match self.hlo.kind() {
            HloKind::Replicated | HloKind::Maximal => true,
            HloKind::Unreduced => self.holders.len() == 1,
            HloKind::Tiled | HloKind::Tuple | HloKind::Manual | HloKind::Unknown => false,
        }
    }

    fn checked(&self, shape: &Shape) -> Result<(Tiling, Shape)> {
        if self.hlo.kind() == HloKind::Manual || self.hlo.subgroups().contains(&Subgroup::Manual) {
            return Err(Error::new(
                ErrorKind::Sharding,
                format!("{self} is manual: each device has a view of its own, and there is no whole to cut"),
            )
            .with_fix("ask inside of the manual region, or without the manual subgroup"));
        }
        even(self, self.tiles(shape.len())?, shape)
    }

    /// Only tiles know the number of axes.
    fn only_ndim(&self) -> Option<usize> {
        self.hlo.data_dims().map(<[usize]>::len)
    }

    fn tiles(&self, ndim: usize) -> Result<Tiling> {
        let n = self.holders.len();
        let each = || Parts::digits([(n, 1)]);
        match (self.hlo.kind(), &self.grid) {
            (HloKind::Tiled, Some(grid)) => {
                let data = self.only_ndim().unwrap_or(0);
                if data != ndim {
                    return Err(wrong_dimensions(self, data, ndim));
                }
                let groups = self.hlo.subgroups().iter().zip(data..);
                Ok(groups.fold(grid.tiling(ndim)?, |tiling, (kind, dim)| match kind {
                    Subgroup::Replicated => tiling,
                    Subgroup::Unreduced => tiling.with_terms(Place::PARTIAL, grid.parts(dim)),
                    Subgroup::Manual => tiling.with_terms(Place::Unknown, grid.parts(dim)),
                }))
            }
            (HloKind::Unreduced, _) => Ok(Tiling::replicated(n, ndim).with_terms(Place::PARTIAL, each())),
            (HloKind::Manual, _) => Ok(Tiling::replicated(n, ndim).with_terms(Place::Unknown, each())),
            (HloKind::Unknown, _) => {
                Err(Error::new(ErrorKind::Sharding, format!("{self} does not say what lies where"))
                    .with_fix("use a sharding that is not {unknown}"))
            }
            _ => Ok(Tiling::replicated(n, ndim)),
        }
    }
}

sharding_over_ordered_devices!(GspmdSharding);

impl PartialEq for GspmdSharding {
    fn eq(&self, other: &Self) -> bool {
        self.devices == other.devices && self.hlo == other.hlo
    }
}
impl Eq for GspmdSharding {}
impl Hash for GspmdSharding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.devices, &self.hlo).hash(state);
    }
}

impl fmt::Display for GspmdSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GspmdSharding({}, {})", self.hlo, self.devices)
    }
}
