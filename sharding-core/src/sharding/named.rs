//! A mesh and a spec by names.

use super::tiling::{mesh_digits, position_in};
use super::{Devices, IndicesMap, MemoryKind, Sharding, Tiling, equivalent};
use crate::{
    AbstractMesh, AxisType, Device, DeviceMesh, Error, ErrorKind, PartitionSpec, Place, Result, Scope, Shape,
    SpecEntry,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How a tensor is split over a mesh, by the names of its axes; JAX's sharding of that name.
///
/// Each entry of the spec names the mesh axes that split one tensor axis, the most significant first, in any order; an
/// extent must divide by the product of their sizes. A [`DeviceMapping`](crate::DeviceMapping) splits in mesh order
/// only, and any extent: `DeviceMapping::try_from(&sharding)` and [`NamedSharding::spread`] lead there.
///
/// Two are equal if they are written alike: mesh, axis types, spec and memory. Whether they are the same in effect says
/// [`Sharding::is_equivalent_to`].
///
/// ```
/// use sharding_core::{BackendKind, DeviceMesh, ErrorKind, NamedSharding, Shape, Sharding, spec};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [4, 2], ["x", "y"])?;
/// let sharding = NamedSharding::new(&mesh, spec![("y", "x"), None])?;
/// assert_eq!(sharding.shard_shape(&Shape::from([16, 3]))?, Shape::from([2, 3]));
/// let error = sharding.shard_shape(&Shape::from([17, 3])).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Indivisible);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone)]
pub struct NamedSharding {
    mesh: AnyMesh,
    spec: PartitionSpec,
    memory: Option<MemoryKind>,
}

#[derive(Clone)]
enum AnyMesh {
    Devices(DeviceMesh),
    Abstract(AbstractMesh),
}

impl AnyMesh {
    fn shape(&self) -> &[usize] {
        match self {
            Self::Devices(mesh) => mesh.shape(),
            Self::Abstract(mesh) => mesh.shape(),
        }
    }
    fn axis_types(&self) -> &[AxisType] {
        match self {
            Self::Devices(mesh) => mesh.axis_types(),
            Self::Abstract(mesh) => mesh.axis_types(),
        }
    }
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Devices(mesh) => mesh.axis_names().collect(),
            Self::Abstract(mesh) => mesh.axis_names().collect(),
        }
    }
    fn axis_of(&self, name: &str) -> Option<usize> {
        match self {
            Self::Devices(mesh) => mesh.axis_names().position(|known| known == name),
            Self::Abstract(mesh) => mesh.axis_names().position(|known| known == name),
        }
    }
}

impl fmt::Display for AnyMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Devices(mesh) => mesh.fmt(f),
            Self::Abstract(mesh) => mesh.fmt(f),
        }
    }
}

impl NamedSharding {
    /// A spec on a mesh, in the default memory of its devices.
    ///
    /// Whether extents divide is asked when there is a shape.
    ///
    /// # Errors
    /// In this order: [`ErrorKind::DuplicateAxis`] if the entries name a mesh axis twice, whether it exists or not;
    /// [`ErrorKind::Axis`] for a name that the mesh does not have; [`ErrorKind::Mapping`] for an unconstrained entry where no
    /// mesh axis is [`AxisType::Auto`]; [`ErrorKind::Unreduced`] for an unreduced or reduced axis that the mesh does not
    /// have or that is not [`AxisType::Explicit`].
    pub fn new(mesh: &DeviceMesh, spec: PartitionSpec) -> Result<Self> {
        Self::build(AnyMesh::Devices(mesh.clone()), spec, Some(MemoryKind::Device))
    }

    /// A spec on a mesh without devices, in no memory in particular. Questions about devices are errors.
    ///
    /// # Errors
    /// As [`NamedSharding::new`].
    pub fn on_abstract(mesh: &AbstractMesh, spec: PartitionSpec) -> Result<Self> {
        Self::build(AnyMesh::Abstract(mesh.clone()), spec, None)
    }

    /// The same placement in another memory; on an abstract mesh any kind is taken.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryKind`], naming the kinds that the devices know.
    pub fn in_memory(self, kind: MemoryKind) -> Result<Self> {
        self.with_memory(Some(kind))
    }
    fn with_memory(self, kind: Option<MemoryKind>) -> Result<Self> {
        let memory = match &self.mesh {
            AnyMesh::Devices(mesh) => {
                let kind = kind.unwrap_or_default();
                Some(mesh.device(0).map_or(Ok(kind), |device| kind.checked(device.kind))?)
            }
            AnyMesh::Abstract(_) => kind,
        };
        Ok(Self { memory, ..self })
    }

    /// The same spec and memory on another mesh.
    ///
    /// # Errors
    /// As [`NamedSharding::new`] and [`NamedSharding::in_memory`].
    pub fn on(&self, mesh: &DeviceMesh) -> Result<Self> {
        Self::new(mesh, self.spec.clone())?.with_memory(self.memory)
    }
    /// Another spec on the same mesh, in the same memory.
    ///
    /// # Errors
    /// As [`NamedSharding::new`].
    pub fn with_spec(&self, spec: PartitionSpec) -> Result<Self> {
        Self::build(self.mesh.clone(), spec, self.memory)
    }

    /// The mesh.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if it is abstract.
    pub fn mesh(&self) -> Result<&DeviceMesh> {
        match &self.mesh {
            AnyMesh::Devices(mesh) => Ok(mesh),
            AnyMesh::Abstract(mesh) => {
                Err(Error::new(ErrorKind::Mesh, format!("{self} is on {mesh}, which has no devices"))
                    .with_fix("sharding.on(&mesh)? with a DeviceMesh of the same axis names"))
            }
        }
    }
    /// Shape, names and types of the mesh.
    pub fn abstract_mesh(&self) -> AbstractMesh {
        match &self.mesh {
            AnyMesh::Devices(mesh) => mesh.to_abstract(),
            AnyMesh::Abstract(mesh) => mesh.clone(),
        }
    }
    /// The spec as it was given.
    pub fn spec(&self) -> &PartitionSpec {
        &self.spec
    }
    /// The mesh axes that the spec does not name at all, in mesh order.
    pub fn replicated_axes(&self) -> Vec<&str> {
        let spec = &self.spec;
        let mut names = self.mesh.names();
        names.retain(|name| {
            let mut named = spec
                .entries()
                .iter()
                .flat_map(SpecEntry::names)
                .chain(spec.unreduced())
                .chain(spec.reduced());
            named.all(|other| other != *name)
        });
        names
    }

    fn build(mesh: AnyMesh, spec: PartitionSpec, memory: Option<MemoryKind>) -> Result<Self> {
        check_entries(&mesh, &spec)?;
        check_sets(&mesh, &spec)?;
        Ok(Self { mesh, spec, memory })
    }

    /// The mesh axes of an entry, as written.
    pub(super) fn axes_of(&self, entry: &SpecEntry) -> impl Iterator<Item = usize> {
        entry.names().filter_map(|name| self.mesh.axis_of(name))
    }
    pub(super) fn mesh_shape(&self) -> &[usize] {
        self.mesh.shape()
    }
    /// The unreduced mesh axes, in mesh order.
    pub(super) fn unreduced_axes(&self) -> Vec<usize> {
        let mut axes: Vec<usize> = self.spec.unreduced().filter_map(|name| self.mesh.axis_of(name)).collect();
        axes.sort_unstable();
        axes
    }

    /// The manual mesh axes that no entry names, in mesh order.
    pub(super) fn unnamed_manual_axes(&self) -> impl Iterator<Item = usize> {
        let types = self.mesh.axis_types().iter().enumerate();
        let manual = types.filter(|(_, kind)| **kind == AxisType::Manual).map(|(axis, _)| axis);
        manual
            .filter(|axis| !self.spec.entries().iter().any(|entry| self.axes_of(entry).any(|of| of == *axis)))
    }

    /// Along a manual mesh axis that no entry names every device has a view of its own, so there is nothing to say about the
    /// whole.
    fn check_not_manual(&self) -> Result<()> {
        let size = |axis: usize| self.mesh.shape().get(axis).copied().unwrap_or(1);
        match self.unnamed_manual_axes().find(|axis| size(*axis) > 1) {
            None => Ok(()),
            Some(axis) => {
                let name = self.mesh.names().get(axis).copied().unwrap_or_default();
                Err(Error::new(
                    ErrorKind::Sharding,
                    format!("{self} does not name the manual mesh axis '{name}', so along it it is a type only"),
                )
                .with_mesh_axis(name, size(axis))
                .with_fix(format!(
                    "name '{name}' in the spec, or ask it on mesh.with_axis_types(..) without AxisType::Manual"
                )))
            }
        }
    }
    fn check_dimensions(&self, shape: &Shape) -> Result<()> {
        let entries = self.spec.entries().len();
        if entries <= shape.len() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Dimensions,
            format!(
                "{self} is for tensors of at least {entries} axes, not for the shape {shape} of {}",
                shape.len()
            ),
        )
        .with_fix(match shape.len() {
            0 => "write spec![] for a tensor without axes".to_owned(),
            n => format!("write at most {n} entries"),
        }))
    }
    /// What is asked about a shape, after all checks.
    fn checked_tiling(&self, shape: &Shape) -> Result<(Tiling, Shape)> {
        self.check_dimensions(shape)?;
        self.check_not_manual()?;
        let tiling = self.tiling(shape.len())?;
        super::ordered::even(self, tiling, shape)
    }
}

fn check_entries(mesh: &AnyMesh, spec: &PartitionSpec) -> Result<()> {
    let names: Vec<&str> = spec.entries().iter().flat_map(SpecEntry::names).collect();
    let twice = names.iter().enumerate().find(|(i, name)| names.iter().take(*i).any(|other| other == *name));
    if let Some((_, name)) = twice {
        return Err(Error::new(
            ErrorKind::DuplicateAxis,
            format!("the mesh axis '{name}' is used twice in {spec}; it can split one tensor axis, once"),
        )
        .with_fix("name every mesh axis at most once"));
    }
    if let Some(name) = names.iter().find(|name| mesh.axis_of(name).is_none()) {
        return Err(unknown(mesh, name, spec, ErrorKind::Axis));
    }
    let unconstrained = spec.entries().iter().any(SpecEntry::is_unconstrained);
    if unconstrained && !mesh.axis_types().contains(&AxisType::Auto) {
        return Err(Error::new(
            ErrorKind::Mapping,
            format!("{spec} has an unconstrained entry, but no axis of {mesh} is of type Auto"),
        )
        .with_fix("write None, or the mesh axes, for this entry"));
    }
    Ok(())
}

fn check_sets(mesh: &AnyMesh, spec: &PartitionSpec) -> Result<()> {
    let unreduced = spec.unreduced().map(|name| (name, "unreduced"));
    for (name, what) in unreduced.chain(spec.reduced().map(|name| (name, "reduced"))) {
        let Some(axis) = mesh.axis_of(name) else {
            return Err(unknown(mesh, name, spec, ErrorKind::Unreduced));
        };
        match mesh.axis_types().get(axis) {
            Some(AxisType::Explicit) | None => {}
            Some(other) => {
                return Err(Error::new(
                    ErrorKind::Unreduced,
                    format!("the mesh axis '{name}' of {mesh} is {what} in {spec}, but of type {other:?}"),
                )
                .with_fix("mesh.with_axis_types(..) with AxisType::Explicit for this axis"));
            }
        }
    }
    Ok(())
}

fn unknown(mesh: &AnyMesh, name: &str, spec: &PartitionSpec, kind: ErrorKind) -> Error {
    let names = mesh.names();
    Error::new(kind, format!("{mesh} has no mesh axis '{name}', which {spec} names")).with_fix(
        match names.is_empty() {
            true => "write None: this mesh has no axes".to_owned(),
            false => format!("use one of {}", names.join(", ")),
        },
    )
}

impl Sharding for NamedSharding {
    fn num_devices(&self) -> usize {
        self.mesh.shape().iter().product()
    }
    fn device_order(&self) -> Result<DeviceMesh> {
        self.mesh().cloned()
    }
    fn device_set(&self) -> Result<Devices> {
        Ok(Devices::all(self.mesh()?))
    }
    fn addressable_devices(&self) -> Result<Devices> {
        Ok(Devices::of_process(self.mesh()?, Scope::current().process()))
    }
    fn devices_indices_map(&self, shape: &Shape) -> Result<IndicesMap> {
        IndicesMap::new(self.device_set()?, self.checked_tiling(shape)?.0, shape)
    }
    fn addressable_devices_indices_map(&self, shape: &Shape) -> Result<IndicesMap> {
        IndicesMap::new(self.addressable_devices()?, self.checked_tiling(shape)?.0, shape)
    }
    fn shard_shape(&self, shape: &Shape) -> Result<Shape> {
        Ok(self.checked_tiling(shape)?.1)
    }
    fn shard_shape_of(&self, shape: &Shape, device: Device) -> Result<Shape> {
        position_in(self.mesh()?, device, self)?;
        self.shard_shape(shape)
    }
    fn tensor_ndim(&self) -> Option<usize> {
        None
    }
    fn is_equivalent_to(&self, other: &dyn Sharding, ndim: usize) -> Result<bool> {
        equivalent(self, other, ndim)
    }
    fn is_fully_replicated(&self) -> bool {
        let named = self.spec.entries().iter().flat_map(SpecEntry::names).chain(self.spec.unreduced());
        let size = |name| self.mesh.axis_of(name).and_then(|axis| self.mesh.shape().get(axis));
        named.into_iter().all(|name| size(name).is_none_or(|size| *size == 1))
    }
    fn is_fully_addressable(&self) -> Result<bool> {
        Ok(self.mesh()?.is_all_of(Scope::current().process()))
    }
    fn memory_kind(&self) -> Option<MemoryKind> {
        self.memory
    }
    fn with_memory_kind(&self, kind: Option<MemoryKind>) -> Result<Arc<dyn Sharding>> {
        Ok(Arc::new(self.clone().with_memory(kind)?))
    }
    fn tiling(&self, ndim: usize) -> Result<Tiling> {
        let shape = self.mesh.shape();
        let tiling = Tiling::replicated(self.num_devices(), ndim);
        let tiling = self.spec.entries().iter().enumerate().try_fold(tiling, |tiling, (axis, entry)| {
            tiling.cut(axis, mesh_digits(shape, self.axes_of(entry)))
        })?;
        Ok(tiling.with_terms(Place::PARTIAL, mesh_digits(shape, self.unreduced_axes())))
    }
}

impl PartialEq for NamedSharding {
    fn eq(&self, other: &Self) -> bool {
        let mesh = match (&self.mesh, &other.mesh) {
            (AnyMesh::Devices(a), AnyMesh::Devices(b)) => a == b,
            (AnyMesh::Abstract(a), AnyMesh::Abstract(b)) => a == b,
            _ => false,
        };
        mesh && self.mesh.axis_types() == other.mesh.axis_types()
            && self.spec == other.spec
            && self.memory == other.memory
    }
}
impl Eq for NamedSharding {}
impl Hash for NamedSharding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.mesh {
            AnyMesh::Devices(mesh) => mesh.hash(state),
            AnyMesh::Abstract(mesh) => mesh.hash(state),
        }
        self.spec.hash(state);
        self.memory.hash(state);
    }
}

impl fmt::Display for NamedSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedSharding({}, {}", self.mesh, self.spec)?;
        match self.memory {
            None | Some(MemoryKind::Device) => f.write_str(")"),
            Some(other) => write!(f, ", {other})"),
        }
    }
}
impl fmt::Debug for NamedSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
