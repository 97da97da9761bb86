//! Device meshes: named N-dimensional grids of devices.

mod abstract_mesh;
mod axis_type;
mod check;
mod device_list;
mod grid;
mod make;

pub use abstract_mesh::AbstractMesh;
pub use axis_type::AxisType;
pub use make::make_mesh;

use crate::{BackendKind, Device, Error, ErrorKind, Result, bail};
use axis_type::AxisTypes;
use check::{check_devices, checked_names, checked_size};
use device_list::{DeviceList, Listed};
use grid::Grid;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The most mesh axes a mesh may have.
pub const MAX_MESH_AXES: usize = 8;

/// An N-dimensional grid of devices with named axes.
///
/// Cloning costs one reference count. Two meshes are equal if devices, shape and axis names are; axis types do
/// not count. Devices are in row-major order of their coordinates.
///
/// ```
/// use sharding_core::{BackendKind, DeviceMesh};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 4], ["dp", "tp"])?;
/// assert_eq!(mesh.to_string(), "DeviceMesh(dp=2, tp=4)");
/// assert_eq!(mesh.device_coord(6, &[1])?, 2);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone)]
pub struct DeviceMesh {
    inner: Arc<MeshInner>,
    axis_types: AxisTypes,
}

struct MeshInner {
    devices: DeviceList,
    grid: Grid,
    num_devices: usize,
    digest: u64,
}

impl DeviceMesh {
    /// A mesh over `devices` in row-major order, with [`AxisType::Auto`] on every axis. Without axes it is one device.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if there is no device, a size is 0, there are more than [`MAX_MESH_AXES`] axes, the
    /// product of the sizes is not the number of devices, names are empty, repeated or of another number, a
    /// device appears twice, devices are of several kinds, or only some ordinals of a process carry several slots.
    pub fn new<N: AsRef<str>>(
        devices: &[Device],
        shape: impl AsRef<[usize]>,
        names: impl AsRef<[N]>,
    ) -> Result<Self> {
        let shape = shape.as_ref();
        if devices.is_empty() {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("a device mesh needs at least one device; the shape is {shape:?}"),
            )
            .with_fix("DeviceMesh::new(&[Device::cpu()], [1], [\"x\"])"));
        }
        let size = checked_size(shape)?;
        if size != devices.len() {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("the mesh shape {shape:?} needs {size} devices, got {}", devices.len()),
            )
            .with_fix("give as many devices as the product of the mesh sizes"));
        }
        let names = checked_names(names.as_ref(), shape)?;
        check_devices(devices)?;
        Ok(Self::build(DeviceList::new(devices), shape, names, size))
    }

    /// A mesh of slots `0..n` of ordinal 0 of one backend in process 0: all devices are simulated on one.
    ///
    /// # Errors
    /// As [`DeviceMesh::new`].
    pub fn simulated<N: AsRef<str>>(
        kind: BackendKind,
        shape: impl AsRef<[usize]>,
        names: impl AsRef<[N]>,
    ) -> Result<Self> {
        let shape = shape.as_ref();
        let size = checked_size(shape)?;
        if u32::try_from(size).is_err() {
            return Err(Error::new(
                ErrorKind::Overflow,
                format!(
                    "the mesh shape {shape:?} has {size} devices; a simulated mesh has at most {}",
                    u32::MAX
                ),
            )
            .with_fix("use smaller mesh sizes"));
        }
        let names = checked_names(names.as_ref(), shape)?;
        Ok(Self::build(DeviceList::Slots { first: Device::new(kind, 0) }, shape, names, size))
    }

    /// The mesh of one device, with one axis named `_`.
    pub fn single(device: Device) -> Self {
        Self::build(DeviceList::Slots { first: device }, &[1], SmallVec::from_elem("_".into(), 1), 1)
    }

    /// A mesh of some devices of a valid mesh, in whatever order: each is there once, but ordinals may carry different
    /// numbers of slots.
    ///
    /// # Errors
    /// As [`DeviceMesh::new`], for the shape and the names.
    pub(crate) fn of_some<N: AsRef<str>>(devices: &[Device], shape: &[usize], names: &[N]) -> Result<Self> {
        let size = checked_size(shape)?;
        let names = checked_names(names, shape)?;
        if size != devices.len() {
            bail!(Internal, "{} devices for the mesh shape {shape:?}", devices.len());
        }
        Ok(Self::build(DeviceList::new(devices), shape, names, size))
    }

    fn build(
        devices: DeviceList,
        shape: &[usize],
        names: SmallVec<[Box<str>; 4]>,
        num_devices: usize,
    ) -> Self {
        let mut hasher = FxHasher::default();
        devices.hash(&mut hasher);
        shape.hash(&mut hasher);
        names.hash(&mut hasher);
        let digest = hasher.finish();
        let axis_types = SmallVec::from_elem(AxisType::Auto, shape.len());
        Self {
            inner: Arc::new(MeshInner {
                devices,
                grid: Grid { shape: shape.into(), names },
                num_devices,
                digest,
            }),
            axis_types,
        }
    }

    /// The same mesh with other axis types; free.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if there is not one type per mesh axis.
    pub fn with_axis_types(&self, types: impl AsRef<[AxisType]>) -> Result<Self> {
        let axis_types = axis_type::checked(self, self.ndim(), types.as_ref())?;
        Ok(Self { inner: self.inner.clone(), axis_types })
    }

    /// The same mesh with another type of one axis; free.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for a name that the mesh does not have.
    pub fn with_axis_type(&self, name: &str, axis_type: AxisType) -> Result<Self> {
        let axis_types = axis_type::replaced(&self.axis_types, self.axis_index(name)?, axis_type);
        Ok(Self { inner: self.inner.clone(), axis_types })
    }

    /// The same devices in the same order in a grid of another shape, with [`AxisType::Auto`] on every axis.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if the product of the sizes is not the number of devices; else as [`DeviceMesh::new`].
    pub fn with_grid<N: AsRef<str>>(
        &self,
        shape: impl AsRef<[usize]>,
        names: impl AsRef<[N]>,
    ) -> Result<Self> {
        let shape = shape.as_ref();
        let size = checked_size(shape)?;
        if size != self.num_devices() {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("the mesh shape {shape:?} needs {size} devices, {self} has {}", self.num_devices()),
            )
            .with_fix("keep the product of the mesh sizes"));
        }
        let names = checked_names(names.as_ref(), shape)?;
        Ok(Self::build(self.inner.devices.clone(), shape, names, size))
    }

    /// The number of mesh axes.
    pub fn ndim(&self) -> usize {
        self.inner.grid.shape.len()
    }
    /// The size of each mesh axis.
    pub fn shape(&self) -> &[usize] {
        &self.inner.grid.shape
    }
    /// The number of devices.
    pub fn num_devices(&self) -> usize {
        self.inner.num_devices
    }
    /// The name of each mesh axis.
    pub fn axis_names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.inner.grid.axis_names()
    }
    /// The type of each mesh axis.
    pub fn axis_types(&self) -> &[AxisType] {
        &self.axis_types
    }
    /// The name of one mesh axis; empty where there is none.
    pub fn axis_name(&self, axis: usize) -> &str {
        self.inner.grid.axis_name(axis)
    }
    /// The size of one mesh axis; 1 where there is none.
    pub fn size(&self, axis: usize) -> usize {
        self.inner.grid.size(axis)
    }
    /// The axis of that name.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`], listing the names there are.
    pub fn axis_index(&self, name: &str) -> Result<usize> {
        self.inner.grid.axis_index(self, name)
    }
    /// The names of the axes of a type, in mesh order.
    ///
    /// ```
    /// use sharding_core::{AxisType, BackendKind, DeviceMesh};
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 4], ["dp", "tp"])?;
    /// let mesh = mesh.with_axis_type("tp", AxisType::Manual)?;
    /// assert_eq!(mesh.axes_of_type(AxisType::Manual).collect::<Vec<_>>(), ["tp"]);
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    pub fn axes_of_type(&self, axis_type: AxisType) -> impl Iterator<Item = &str> + Clone {
        self.axis_names().zip(&self.axis_types).filter(move |(_, t)| **t == axis_type).map(|(name, _)| name)
    }
    /// Whether its devices belong to several processes.
    pub fn is_multi_process(&self) -> bool {
        match &self.inner.devices {
            DeviceList::Slots { .. } | DeviceList::Ordinals { .. } => false,
            DeviceList::List(Listed { devices, .. }) => {
                devices.iter().any(|device| Some(device.process) != devices.first().map(|d| d.process))
            }
        }
    }
    /// Whether several slots share an ordinal.
    pub fn is_simulated(&self) -> bool {
        match (self.device(0), self.device(1)) {
            (Some(a), Some(b)) => match &self.inner.devices {
                DeviceList::Slots { .. } => true,
                DeviceList::Ordinals { .. } => false,
                DeviceList::List(listed) => {
                    a.same_ordinal(b) || listed.devices.iter().skip(1).any(|d| d.same_ordinal(a))
                }
            },
            _ => false,
        }
    }
    /// The device at a row-major position.
    pub fn device(&self, position: usize) -> Option<Device> {
        if position < self.num_devices() { self.inner.devices.get(position) } else { None }
    }
    /// The row-major position of a device, if it is one of them.
    pub fn position_of(&self, device: Device) -> Option<usize> {
        let distance = |first: Device, at: u32, begin: u32, same: Device| {
            (first == same).then(|| at.checked_sub(begin))?.map(|n| n as usize)
        };
        let position = match &self.inner.devices {
            DeviceList::Slots { first } => {
                distance(*first, device.slot, first.slot, Device { slot: first.slot, ..device })
            }
            DeviceList::Ordinals { first } => {
                distance(*first, device.ordinal, first.ordinal, Device { ordinal: first.ordinal, ..device })
            }
            DeviceList::List(listed) => listed.position_of(device),
        };
        position.filter(|position| *position < self.num_devices())
    }
    /// All devices in row-major order.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = Device> + '_ {
        (0..self.num_devices()).map(|i| self.device(i).unwrap_or(Device::cpu()))
    }
    /// Whether both have the same devices in the same order, whatever their shapes and names.
    pub fn same_devices(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (self.num_devices() == other.num_devices() && self.inner.devices == other.inner.devices)
    }
    /// Whether all devices of another mesh are devices of this one.
    pub(crate) fn has_all_of(&self, other: &Self) -> bool {
        if self.same_devices(other) {
            return true;
        }
        let at = |position: usize| other.device(position).and_then(|device| self.position_of(device));
        let is_range = |mesh: &Self| !matches!(mesh.inner.devices, DeviceList::List(_));
        if is_range(self) && is_range(other) {
            // One after the other in both: the ends tell.
            let (first, last) = (at(0), at(other.num_devices().saturating_sub(1)));
            return matches!((first, last), (Some(a), Some(b)) if b.checked_sub(a) == Some(other.num_devices() - 1));
        }
        (0..other.num_devices()).all(|position| at(position).is_some())
    }
    /// Whether all devices are of that process.
    pub fn is_all_of(&self, process: u32) -> bool {
        !self.is_multi_process() && self.device(0).is_some_and(|device| device.process == process)
    }
    /// A number that is equal for equal meshes, in every process.
    pub fn digest(&self) -> u64 {
        self.inner.digest
    }

    /// The number of devices along several mesh axes together (row-major as given; an axis may repeat).
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for an axis that is not there.
    pub fn axis_size(&self, axes: &[usize]) -> Result<usize> {
        self.inner.grid.axis_size(self, axes)
    }

    /// The coordinate of a device along several mesh axes together (row-major as given; an axis may repeat).
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for an axis or a position that is not there.
    pub fn device_coord(&self, position: usize, axes: &[usize]) -> Result<usize> {
        self.inner.grid.device_coord(self, position, axes)
    }

    /// The coordinate of a position on one axis; 0 where there is no such axis.
    pub fn coord(&self, position: usize, axis: usize) -> usize {
        self.inner.grid.coord(position, axis)
    }

    /// The row-major distance between neighbours on one axis.
    pub fn stride(&self, axis: usize) -> usize {
        self.inner.grid.stride(axis)
    }

    /// The positions of the group of `position` along `axes` (all devices that differ from it only there), in
    /// row-major order over `axes` as given; an axis that repeats counts once.
    pub fn group(&self, position: usize, axes: &[usize]) -> SmallVec<[usize; 8]> {
        self.inner.grid.group(position, axes)
    }

    /// The sub-mesh that keeps `axes` (in the order given) and fixes the others at the coordinates of `position`.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for an axis that is not there, [`ErrorKind::DuplicateAxis`] for one given twice;
    /// [`ErrorKind::Mesh`] for no axis.
    pub fn sub_mesh(&self, position: usize, axes: &[usize]) -> Result<Self> {
        self.device_coord(position, axes)?;
        self.inner.grid.check_kept(self, axes)?;
        let devices: Vec<Device> =
            self.group(position, axes).iter().filter_map(|p| self.device(*p)).collect();
        let shape: Vec<usize> = axes.iter().map(|axis| self.size(*axis)).collect();
        let names: Vec<&str> = axes.iter().map(|axis| self.axis_name(*axis)).collect();
        let types: Vec<AxisType> =
            axes.iter().filter_map(|axis| self.axis_types.get(*axis).copied()).collect();
        Self::of_some(&devices, &shape, &names)?.with_axis_types(types)
    }

    /// Whether axes are in mesh order; those of size 1 may stand anywhere.
    pub(crate) fn in_order(&self, axes: impl IntoIterator<Item = usize>) -> bool {
        axes.into_iter().filter(|axis| self.size(*axis) > 1).is_sorted()
    }

    /// The same devices as a mesh of another axis order: these axes come first, each once, then the others. And where the
    /// axes of that mesh are in this one.
    ///
    /// # Errors
    /// As [`DeviceMesh::sub_mesh`].
    pub(crate) fn with_first(
        &self,
        axes: impl IntoIterator<Item = usize>,
    ) -> Result<(Self, SmallVec<[usize; 4]>)> {
        let mut order: SmallVec<[usize; 4]> = axes.into_iter().collect();
        for axis in 0..self.ndim() {
            if !order.contains(&axis) {
                order.push(axis);
            }
        }
        Ok((self.sub_mesh(0, &order)?, order))
    }

    /// Whether both have the same shape and axis names, whatever their devices.
    pub fn same_grid(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.inner.grid == other.inner.grid
    }

    /// A mesh of this shape whose devices are in no process: tensors on it have no shards.
    pub(crate) fn elsewhere(mesh: &AbstractMesh) -> Self {
        let first = Device::cpu().with_process(u32::MAX);
        let grid = mesh.grid();
        let all =
            Self::build(DeviceList::Slots { first }, &grid.shape, grid.names.clone(), mesh.num_devices());
        Self { axis_types: mesh.axis_types().into(), ..all }
    }

    /// Shape and names without the devices.
    pub fn to_abstract(&self) -> AbstractMesh {
        AbstractMesh::from_parts(self.inner.grid.clone(), self.axis_types.clone())
    }
}

impl PartialEq for DeviceMesh {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (self.inner.digest == other.inner.digest
                && self.inner.grid == other.inner.grid
                && self.inner.devices == other.inner.devices)
    }
}
impl Eq for DeviceMesh {}
impl Hash for DeviceMesh {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.inner.digest);
    }
}

impl fmt::Display for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.grid.write(f, "DeviceMesh")
    }
}
impl fmt::Debug for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
