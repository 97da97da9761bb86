//! Mappings: a mesh and one placement per mesh axis.

use crate::placement::Ranges;
use crate::split::balanced;
use crate::text::clean;
use crate::{DeviceMesh, Error, ErrorKind, MemoryKind, Place, Result, Shape};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Placements, one per mesh axis.
pub type Places = SmallVec<[Place; 4]>;

/// The index ranges that a device holds, per tensor axis.
pub type Region = SmallVec<[Ranges; 4]>;

/// A mesh, one placement per mesh axis, and a memory kind.
///
/// A tensor axis that several mesh axes shard is ONE balanced split over all the devices they span, in row-major
/// device order. A custom placement has its tensor axis for itself.
///
/// ```
/// use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, Shape};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"])?;
/// let mapping = DeviceMapping::new(&mesh, [Place::Sharded(0), Place::Sharded(0)])?;
/// let rows: Vec<usize> = (0..4).map(|device| mapping.local_shape(&Shape::from([10, 4]), device)[0]).collect();
/// assert_eq!(rows, [3, 3, 2, 2]);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceMapping {
    mesh: DeviceMesh,
    places: Places,
    memory: MemoryKind,
}

impl DeviceMapping {
    /// A mapping in device memory.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if there is not one placement per mesh axis, two mesh axes are Partial of different
    /// ops (they do not commute), or a custom placement shares its tensor axis.
    pub fn new(mesh: &DeviceMesh, places: impl AsRef<[Place]>) -> Result<Self> {
        let places = places.as_ref();
        if places.len() != mesh.ndim() {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "{mesh} needs one placement per mesh axis ({}), got {}: {places:?}",
                    mesh.ndim(),
                    places.len()
                ),
            )
            .with_fix("write Replicated for mesh axes that do nothing"));
        }
        let mut partials = places.iter().filter_map(|place| place.reduce_op());
        if let Some(first) = partials.next()
            && let Some(other) = partials.find(|op| *op != first)
        {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!("Partial({first}) and Partial({other}) on two mesh axes of {mesh} do not commute"),
            )
            .with_fix("reduce one of them first: x.all_reduce(axis)"));
        }
        for (i, place) in places.iter().enumerate() {
            let Some(axis) = place.tensor_axis() else { continue };
            let shared = places.iter().take(i).any(|other| {
                other.tensor_axis() == Some(axis)
                    && (matches!(place, Place::Custom(_)) || matches!(other, Place::Custom(_)))
            });
            if shared {
                return Err(Error::new(
                    ErrorKind::Mapping,
                    format!(
                        "tensor axis {axis} is split by a custom placement and by another mesh axis of {mesh}: {places:?}; a custom placement needs its tensor axis for itself"
                    ),
                )
                .with_fix("use Sharded on both mesh axes, or Replicated on one of them"));
            }
        }
        Ok(Self { mesh: mesh.clone(), places: places.into(), memory: MemoryKind::Device })
    }

    /// Everything on every device.
    pub fn replicated(mesh: &DeviceMesh) -> Self {
        Self {
            mesh: mesh.clone(),
            places: smallvec![Place::Replicated; mesh.ndim()],
            memory: MemoryKind::Device,
        }
    }

    /// The same in another memory.
    #[must_use]
    pub fn with_memory_kind(mut self, memory: MemoryKind) -> Self {
        self.memory = memory;
        self
    }

    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }
    /// The placement on each mesh axis.
    pub fn places(&self) -> &[Place] {
        &self.places
    }
    /// The placement on one mesh axis; `Replicated` where there is none.
    pub fn place(&self, mesh_axis: usize) -> Place {
        self.places.get(mesh_axis).copied().unwrap_or(Place::Replicated)
    }
    /// The memory kind.
    pub fn memory_kind(&self) -> MemoryKind {
        self.memory
    }
    /// Whether every device holds the whole tensor.
    pub fn is_fully_replicated(&self) -> bool {
        self.places.iter().all(|place| *place == Place::Replicated)
    }

    /// Checks the placements against a shape.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if a placement names a tensor axis that the shape lacks, or does not fit its extent; for those of
    /// the open trait as [`Interned::check`](crate::placement::Interned::check).
    pub fn check(&self, shape: &Shape) -> Result<()> {
        for (mesh_axis, place) in self.places.iter().enumerate() {
            let Some(axis) = place.tensor_axis() else { continue };
            let located = |error: Error| {
                error.with_mesh_axis(self.mesh.axis_name(mesh_axis), self.mesh.size(mesh_axis))
            };
            let Some(extent) = shape.get(axis) else {
                return Err(located(
                    Error::new(
                        ErrorKind::Mapping,
                        format!(
                            "{place} is out of range for the shape {shape} of {} tensor axes",
                            shape.len()
                        ),
                    )
                    .with_fix(match shape.len() {
                        0 => "place it Replicated: a zero-dimensional tensor has no axis to split".to_owned(),
                        n => format!("name a tensor axis in 0..{n}"),
                    }),
                ));
            };
            if let Place::Custom(custom) = place {
                custom.check(*extent, self.mesh.size(mesh_axis)).map_err(located)?;
            }
        }
        Ok(())
    }

    /// The mesh axes that split a tensor axis, in mesh order.
    pub fn split_by(&self, tensor_axis: usize) -> impl Iterator<Item = usize> + '_ {
        splitting_axes(&self.places, tensor_axis)
    }

    /// The index ranges of one tensor axis of that extent on the device at a row-major position.
    pub fn ranges(&self, tensor_axis: usize, extent: usize, position: usize) -> Ranges {
        axis_ranges(&self.mesh, &self.places, tensor_axis, extent, position)
    }

    /// The index ranges of every tensor axis on the device at a row-major position.
    pub fn region(&self, shape: &Shape, position: usize) -> Region {
        shape.iter().enumerate().map(|(axis, extent)| self.ranges(axis, *extent, position)).collect()
    }

    /// The shape of the shard on the device at a row-major position.
    pub fn local_shape(&self, shape: &Shape, position: usize) -> Shape {
        let extent = |(axis, n): (usize, &usize)| {
            self.ranges(axis, *n, position).iter().map(|range| range.len()).sum()
        };
        shape.iter().enumerate().map(extent).collect()
    }
}

/// The mesh axes whose placement localises a tensor axis, in mesh order.
pub(crate) fn splitting_axes(places: &[Place], tensor_axis: usize) -> impl Iterator<Item = usize> + '_ {
    places
        .iter()
        .enumerate()
        .filter(move |(_, place)| place.tensor_axis() == Some(tensor_axis))
        .map(|(axis, _)| axis)
}

/// The index ranges of one tensor axis on one device; see [`DeviceMapping::ranges`].
pub(crate) fn axis_ranges(
    mesh: &DeviceMesh,
    places: &[Place],
    tensor_axis: usize,
    extent: usize,
    position: usize,
) -> Ranges {
    let (mut ways, mut part) = (1, 0);
    for mesh_axis in splitting_axes(places, tensor_axis) {
        let (size, coord) = (mesh.size(mesh_axis), mesh.coord(position, mesh_axis));
        if let Some(Place::Custom(custom)) = places.get(mesh_axis) {
            return custom.placement().ranges(extent, size, coord);
        }
        ways *= size;
        part = part * size + coord;
    }
    smallvec![balanced(extent, ways, part)]
}

impl Hash for DeviceMapping {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.mesh.hash(state);
        self.places.hash(state);
        self.memory.hash(state);
    }
}

impl fmt::Display for DeviceMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, place)) in self.mesh.axis_names().zip(&self.places).enumerate() {
            write!(f, "{}{}: {place}", if i == 0 { "" } else { ", " }, clean(name))?;
        }
        f.write_str("}")
    }
}
impl fmt::Debug for DeviceMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMapping({}, {:?})", self.mesh, self.places.as_slice())
    }
}
