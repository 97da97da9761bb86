//! Device meshes: named N-dimensional grids of devices.

use crate::{BackendKind, Device, Error, ErrorKind, Result};
use rustc_hash::{FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The most mesh axes a mesh may have.
pub const MAX_MESH_AXES: usize = 8;

/// Who decides about communication on a mesh axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AxisType {
    /// The policy in scope decides about reshards.
    #[default]
    Auto,
    /// An op never communicates by itself: only no_op and local_slice are allowed, whatever the mode.
    Explicit,
    /// Outside a manual region only transfer, inspection and `shard_map` work.
    Manual,
}

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

type AxisTypes = SmallVec<[AxisType; 4]>;

struct MeshInner {
    devices: DeviceList,
    shape: SmallVec<[usize; 4]>,
    names: SmallVec<[Box<str>; 4]>,
    num_devices: usize,
    digest: u64,
}

/// Devices of a mesh; a range of slots is stored as one, so a mesh of a million devices costs no list.
#[derive(PartialEq, Eq)]
enum DeviceList {
    /// `first`, then the same device at the following slots.
    Slots {
        first: Device,
    },
    /// `first`, then the following ordinals at the same slot.
    Ordinals {
        first: Device,
    },
    List(Box<[Device]>),
}

impl DeviceList {
    fn new(devices: &[Device]) -> Self {
        let Some(first) = devices.first().copied() else { return Self::List(Box::default()) };
        let run = |step: fn(Device, u32) -> Option<Device>| {
            devices
                .iter()
                .enumerate()
                .all(|(i, device)| u32::try_from(i).ok().and_then(|i| step(first, i)) == Some(*device))
        };
        if run(slot_after) {
            Self::Slots { first }
        } else if run(ordinal_after) {
            Self::Ordinals { first }
        } else {
            Self::List(devices.into())
        }
    }

    fn get(&self, position: usize) -> Option<Device> {
        match self {
            Self::Slots { first } => slot_after(*first, u32::try_from(position).ok()?),
            Self::Ordinals { first } => ordinal_after(*first, u32::try_from(position).ok()?),
            Self::List(devices) => devices.get(position).copied(),
        }
    }

    /// The same device whichever form it is stored in.
    fn hash(&self, hasher: &mut FxHasher) {
        match self {
            Self::Slots { first } => (0_u8, first).hash(hasher),
            Self::Ordinals { first } => (1_u8, first).hash(hasher),
            Self::List(devices) => (2_u8, devices).hash(hasher),
        }
    }
}

fn slot_after(first: Device, i: u32) -> Option<Device> {
    Some(Device { slot: first.slot.checked_add(i)?, ..first })
}
fn ordinal_after(first: Device, i: u32) -> Option<Device> {
    Some(Device { ordinal: first.ordinal.checked_add(i)?, ..first })
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
        let mut seen = FxHashSet::default();
        if let Some(twice) = devices.iter().find(|device| !seen.insert(**device)) {
            return Err(Error::new(ErrorKind::Mesh, format!("the device {twice} appears twice in the mesh"))
                .with_fix("give each place its own slot: device.with_slot(i), or DeviceMesh::simulated(kind, shape, names)"));
        }
        check_kinds(devices)?;
        check_sharing(devices)?;
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
            inner: Arc::new(MeshInner { devices, shape: shape.into(), names, num_devices, digest }),
            axis_types,
        }
    }

    /// The same mesh with other axis types; free.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if there is not one type per mesh axis.
    pub fn with_axis_types(&self, types: impl AsRef<[AxisType]>) -> Result<Self> {
        let types = types.as_ref();
        if types.len() != self.ndim() {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("{self} has {} mesh axes, got {} axis types", self.ndim(), types.len()),
            )
            .with_fix("give one axis type per mesh axis; AxisType::Auto is the default"));
        }
        Ok(Self { inner: self.inner.clone(), axis_types: types.into() })
    }

    /// The number of mesh axes.
    pub fn ndim(&self) -> usize {
        self.inner.shape.len()
    }
    /// The size of each mesh axis.
    pub fn shape(&self) -> &[usize] {
        &self.inner.shape
    }
    /// The number of devices.
    pub fn num_devices(&self) -> usize {
        self.inner.num_devices
    }
    /// The name of each mesh axis.
    pub fn axis_names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.inner.names.iter().map(|name| &**name)
    }
    /// The type of each mesh axis.
    pub fn axis_types(&self) -> &[AxisType] {
        &self.axis_types
    }
    /// The name of one mesh axis; empty where there is none.
    pub fn axis_name(&self, axis: usize) -> &str {
        self.inner.names.get(axis).map_or("", |name| name)
    }
    /// The size of one mesh axis; 1 where there is none.
    pub fn size(&self, axis: usize) -> usize {
        self.inner.shape.get(axis).copied().unwrap_or(1)
    }
    /// The axis of that name.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`], listing the names there are.
    pub fn axis_index(&self, name: &str) -> Result<usize> {
        self.axis_names().position(|known| known == name).ok_or_else(|| {
            let known: Vec<_> = self.axis_names().collect();
            Error::new(ErrorKind::Axis, format!("{self} has no mesh axis '{name}'"))
                .with_fix(format!("use one of {}", known.join(", ")))
        })
    }
    /// Whether several slots share an ordinal.
    pub fn is_simulated(&self) -> bool {
        match (self.device(0), self.device(1)) {
            (Some(a), Some(b)) => match &self.inner.devices {
                DeviceList::Slots { .. } => true,
                DeviceList::Ordinals { .. } => false,
                DeviceList::List(devices) => {
                    a.same_ordinal(b) || devices.iter().skip(1).any(|d| d.same_ordinal(a))
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
            DeviceList::List(devices) => devices.iter().position(|other| *other == device),
        };
        position.filter(|position| *position < self.num_devices())
    }
    /// All devices in row-major order.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = Device> + '_ {
        (0..self.num_devices()).map(|i| self.device(i).unwrap_or(Device::cpu()))
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
        axes.iter().try_fold(1_usize, |n, axis| Ok(n.saturating_mul(self.checked_axis(*axis)?)))
    }

    /// The coordinate of a device along several mesh axes together (row-major as given; an axis may repeat).
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for an axis or a position that is not there.
    pub fn device_coord(&self, position: usize, axes: &[usize]) -> Result<usize> {
        if position >= self.num_devices() {
            return Err(Error::new(
                ErrorKind::Axis,
                format!("device {position} is out of range for {self} of {} devices", self.num_devices()),
            )
            .with_fix(format!("use a position in 0..{}", self.num_devices())));
        }
        axes.iter().try_fold(0_usize, |coord, axis| {
            let size = self.checked_axis(*axis)?;
            Ok(coord.saturating_mul(size).saturating_add(self.coord(position, *axis)))
        })
    }

    fn checked_axis(&self, axis: usize) -> Result<usize> {
        self.inner.shape.get(axis).copied().ok_or_else(|| {
            Error::new(
                ErrorKind::Axis,
                format!("mesh axis {axis} is out of range for {self} of {} mesh axes", self.ndim()),
            )
            .with_fix(format!("use an axis in 0..{}", self.ndim()))
        })
    }

    /// The coordinate of a position on one axis; 0 where there is no such axis.
    pub fn coord(&self, position: usize, axis: usize) -> usize {
        let below: usize = self.inner.shape.iter().skip(axis.saturating_add(1)).product();
        position / below.max(1) % self.size(axis).max(1)
    }

    /// The row-major distance between neighbours on one axis.
    pub fn stride(&self, axis: usize) -> usize {
        self.inner.shape.iter().skip(axis.saturating_add(1)).product()
    }

    /// The positions of the group of `position` along `axes` (all devices that differ from it only there), in
    /// row-major order over `axes` as given; an axis that repeats counts once.
    pub fn group(&self, position: usize, axes: &[usize]) -> SmallVec<[usize; 8]> {
        let mut base = position;
        let mut group: SmallVec<[usize; 8]> = SmallVec::from_elem(0, 1);
        for (i, axis) in axes.iter().enumerate() {
            if axes.iter().take(i).any(|earlier| earlier == axis) {
                continue;
            }
            base -= self.coord(position, *axis) * self.stride(*axis);
            group = group
                .iter()
                .flat_map(|offset| (0..self.size(*axis)).map(move |c| offset + c * self.stride(*axis)))
                .collect();
        }
        group.iter_mut().for_each(|offset| *offset += base);
        group
    }

    /// The sub-mesh that keeps `axes` (in the order given) and fixes the others at the coordinates of `position`.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for an axis that is not there or is given twice; [`ErrorKind::Mesh`] for no axis.
    pub fn sub_mesh(&self, position: usize, axes: &[usize]) -> Result<Self> {
        self.device_coord(position, axes)?;
        if let Some(twice) =
            axes.iter().enumerate().find(|(i, axis)| axes.iter().take(*i).any(|a| a == *axis))
        {
            return Err(Error::new(
                ErrorKind::Axis,
                format!("the mesh axis '{}' of {self} is given twice", self.axis_name(*twice.1)),
            )
            .with_fix("name each mesh axis once"));
        }
        if axes.is_empty() {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("a sub-mesh of {self} needs at least one mesh axis"),
            )
            .with_fix("name an axis, or DeviceMesh::single(device) for one device"));
        }
        let devices: Vec<Device> =
            self.group(position, axes).iter().filter_map(|p| self.device(*p)).collect();
        let shape: Vec<usize> = axes.iter().map(|axis| self.size(*axis)).collect();
        let names: Vec<&str> = axes.iter().map(|axis| self.axis_name(*axis)).collect();
        let types: Vec<AxisType> =
            axes.iter().filter_map(|axis| self.axis_types.get(*axis).copied()).collect();
        Self::new(&devices, shape, names)?.with_axis_types(types)
    }

    /// Whether both have the same shape and axis names, whatever their devices.
    pub fn same_grid(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (self.inner.shape == other.inner.shape && self.inner.names == other.inner.names)
    }

    /// Shape and names without the devices.
    pub fn to_abstract(&self) -> AbstractMesh {
        AbstractMesh {
            shape: self.inner.shape.clone(),
            names: self.inner.names.clone(),
            axis_types: self.axis_types.clone(),
        }
    }
}

fn checked_size(shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Err(Error::new(
            ErrorKind::Mesh,
            format!("a device mesh needs sizes of at least 1, got the shape {shape:?}"),
        )
        .with_fix("leave an axis of size 1 instead of 0"));
    }
    if shape.len() > MAX_MESH_AXES {
        return Err(Error::new(
            ErrorKind::Mesh,
            format!(
                "the mesh shape {shape:?} has {} axes; at most {MAX_MESH_AXES} are supported",
                shape.len()
            ),
        )
        .with_fix("merge mesh axes: the product of their sizes as one axis"));
    }
    shape
        .iter()
        .try_fold(1_usize, |n, size| n.checked_mul(*size))
        .filter(|n| *n <= isize::MAX as usize)
        .ok_or_else(|| {
            Error::new(ErrorKind::Overflow, format!("the mesh shape {shape:?} has too many devices"))
                .with_fix("use smaller mesh sizes")
        })
}

fn checked_names<N: AsRef<str>>(names: &[N], shape: &[usize]) -> Result<SmallVec<[Box<str>; 4]>> {
    if names.len() != shape.len() {
        return Err(Error::new(
            ErrorKind::Mesh,
            format!("{} axis names for a mesh of {} axes {shape:?}", names.len(), shape.len()),
        )
        .with_fix("give one name per mesh axis"));
    }
    for (i, name) in names.iter().enumerate() {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::new(ErrorKind::Mesh, format!("mesh axis {i} has an empty name"))
                .with_fix("name every mesh axis, as in [\"dp\", \"tp\"]"));
        }
        if names.iter().take(i).any(|earlier| earlier.as_ref() == name) {
            return Err(Error::new(ErrorKind::Mesh, format!("two mesh axes are named '{name}'"))
                .with_fix("give every mesh axis its own name"));
        }
    }
    Ok(names.iter().map(|name| name.as_ref().into()).collect())
}

/// One backend drives a mesh: it would leave out the devices of another kind.
fn check_kinds(devices: &[Device]) -> Result<()> {
    let Some(first) = devices.first() else { return Ok(()) };
    match devices.iter().find(|device| device.kind != first.kind) {
        None => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::Mesh,
            format!(
                "a mesh has devices of one kind, got {first} of {} and {other} of {}",
                first.kind, other.kind
            ),
        )
        .with_fix("make a mesh per kind, and x.transfer_to(&mapping) between them")),
    }
}

/// Within a process and backend all or none of the ordinals carry several slots.
fn check_sharing(devices: &[Device]) -> Result<()> {
    let mut counts: Vec<((u32, BackendKind, u32), usize)> = Vec::new();
    let mut sorted: Vec<_> = devices.iter().map(|d| (d.process, d.kind, d.ordinal)).collect();
    sorted.sort_unstable();
    for key in sorted {
        match counts.last_mut() {
            Some((last, n)) if *last == key => *n += 1,
            _ => counts.push((key, 1)),
        }
    }
    for pair in counts.windows(2) {
        if let [((p, kind, a), n), ((q, other, b), m)] = pair
            && (p, kind) == (q, other)
            && (*n == 1) != (*m == 1)
        {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!(
                    "in process {p} {kind}:{a} carries {n} slots and {kind}:{b} carries {m}: a mesh is simulated on all of its ordinals or on none"
                ),
            )
            .with_fix("give every ordinal one device, or several slots each"));
        }
    }
    Ok(())
}

impl PartialEq for DeviceMesh {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || (self.inner.digest == other.inner.digest
                && self.inner.shape == other.inner.shape
                && self.inner.names == other.inner.names
                && self.inner.devices == other.inner.devices)
    }
}
impl Eq for DeviceMesh {}
impl Hash for DeviceMesh {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.inner.digest);
    }
}

fn write_grid(f: &mut fmt::Formatter<'_>, name: &str, shape: &[usize], names: &[Box<str>]) -> fmt::Result {
    write!(f, "{name}(")?;
    for (i, (axis, size)) in names.iter().zip(shape).enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{axis}={size}")?;
    }
    f.write_str(")")
}

impl fmt::Display for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_grid(f, "DeviceMesh", &self.inner.shape, &self.inner.names)
    }
}
impl fmt::Debug for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A mesh without devices: shape, axis names and axis types.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AbstractMesh {
    shape: SmallVec<[usize; 4]>,
    names: SmallVec<[Box<str>; 4]>,
    axis_types: AxisTypes,
}

impl AbstractMesh {
    /// A mesh of this shape.
    ///
    /// # Errors
    /// As [`DeviceMesh::new`], but for what concerns devices.
    pub fn new<N: AsRef<str>>(shape: impl AsRef<[usize]>, names: impl AsRef<[N]>) -> Result<Self> {
        let shape = shape.as_ref();
        checked_size(shape)?;
        let names = checked_names(names.as_ref(), shape)?;
        Ok(Self { shape: shape.into(), names, axis_types: SmallVec::from_elem(AxisType::Auto, shape.len()) })
    }
    /// The size of each mesh axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
    /// The name of each mesh axis.
    pub fn axis_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
    /// The type of each mesh axis.
    pub fn axis_types(&self) -> &[AxisType] {
        &self.axis_types
    }
}

impl fmt::Display for AbstractMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_grid(f, "AbstractMesh", &self.shape, &self.names)
    }
}
impl fmt::Debug for AbstractMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
