//! Shardings of `pmap`: chunks of tensor axes, mapped to the axes of an unnamed mesh.

use super::ordered::{Ordered, even, sharding_over_ordered_devices, wrong_dimensions};
use super::tiling::mesh_digits;
use super::{MemoryKind, Tiling};
use crate::{Device, Error, ErrorKind, Result, Scope, Shape};
use std::fmt;

/// What becomes of one tensor axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PmapAxis {
    /// Every device has all of it.
    NoSharding,
    /// Every device has one index of it, as an axis of extent 1. Several numbers are chunk axes of their own, the most
    /// significant first, so that a mesh may hold them apart.
    Chunked(Vec<usize>),
    /// Every device has one index of it, and its shard lacks the axis.
    Unstacked(usize),
}

impl PmapAxis {
    fn chunks(&self) -> &[usize] {
        match self {
            Self::NoSharding => &[],
            Self::Chunked(chunks) => chunks,
            Self::Unstacked(size) => std::slice::from_ref(size),
        }
    }
}

/// What one axis of the mesh does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PmapMeshAxis {
    /// It holds the chunks of one chunk axis; these are counted over all tensor axes, in order.
    ShardedAxis(usize),
    /// It holds so many copies.
    Replicated(usize),
}

/// How the axes of a tensor are chunked, and which axis of the mesh holds which chunks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PmapSpec {
    axes: Vec<PmapAxis>,
    mesh: Vec<PmapMeshAxis>,
}

impl PmapSpec {
    /// A spec of these tensor axes and mesh axes.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if a number of chunks or copies is 0, or the mesh does not name each chunk axis once;
    /// [`ErrorKind::Overflow`] if the product of the mesh axes does not fit.
    pub fn new(
        axes: impl IntoIterator<Item = PmapAxis>,
        mesh: impl IntoIterator<Item = PmapMeshAxis>,
    ) -> Result<Self> {
        let spec = Self { axes: axes.into_iter().collect(), mesh: mesh.into_iter().collect() };
        let wrong = |what: String, fix: &str| {
            Err(Error::new(ErrorKind::Mapping, format!("{spec} {what}")).with_fix(fix))
        };
        let chunks: Vec<usize> = spec.axes.iter().flat_map(PmapAxis::chunks).copied().collect();
        let mut mapped = vec![false; chunks.len()];
        let mut devices = 1_usize;
        for axis in &spec.mesh {
            let size = match axis {
                PmapMeshAxis::Replicated(copies) => *copies,
                PmapMeshAxis::ShardedAxis(at) => {
                    match mapped.get_mut(*at) {
                        Some(mapped) if !*mapped => *mapped = true,
                        Some(_) => {
                            return wrong(
                                format!("maps the chunk axis {at} twice"),
                                "map each chunk axis once",
                            );
                        }
                        None => {
                            return wrong(
                                format!("maps the chunk axis {at} of {}", chunks.len()),
                                "count the chunk axes over all tensor axes, from 0",
                            );
                        }
                    }
                    chunks.get(*at).copied().unwrap_or(1)
                }
            };
            let Some(product) = devices.checked_mul(size) else {
                return Err(Error::new(ErrorKind::Overflow, format!("{spec} is for too many devices"))
                    .with_fix("use fewer chunks"));
            };
            devices = product;
        }
        if let Some(at) = mapped.iter().position(|mapped| !mapped) {
            return wrong(format!("does not map the chunk axis {at}"), "map each chunk axis once");
        }
        if devices == 0 {
            return wrong(
                "has an axis of 0 chunks or copies".to_owned(),
                "use NoSharding where nothing is cut",
            );
        }
        Ok(spec)
    }

    /// What becomes of every tensor axis.
    pub fn axes(&self) -> &[PmapAxis] {
        &self.axes
    }
    /// What every mesh axis does.
    pub fn mesh(&self) -> &[PmapMeshAxis] {
        &self.mesh
    }
    /// The size of every mesh axis.
    pub fn mesh_shape(&self) -> Vec<usize> {
        let size = |axis: &PmapMeshAxis| match axis {
            PmapMeshAxis::Replicated(copies) => *copies,
            PmapMeshAxis::ShardedAxis(at) => {
                self.axes.iter().flat_map(PmapAxis::chunks).nth(*at).copied().unwrap_or(1)
            }
        };
        self.mesh.iter().map(size).collect()
    }
    /// For every tensor axis, the mesh axes that hold its chunks, the most significant first.
    pub(super) fn split(&self) -> Vec<Vec<usize>> {
        let mut chunk_axis = 0..;
        let holder = |chunk_axis: usize| {
            self.mesh.iter().position(|axis| *axis == PmapMeshAxis::ShardedAxis(chunk_axis))
        };
        self.axes
            .iter()
            .map(|axis| chunk_axis.by_ref().take(axis.chunks().len()).filter_map(holder).collect())
            .collect()
    }
}

/// `ShardingSpec((Chunked(8), NoSharding()), (ShardedAxis(axis=0),))`, as JAX writes it.
impl fmt::Display for PmapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axis = |axis: &PmapAxis| match axis {
            PmapAxis::NoSharding => "NoSharding()".to_owned(),
            PmapAxis::Chunked(chunks) => {
                let chunks: Vec<String> = chunks.iter().map(usize::to_string).collect();
                format!("Chunked({})", chunks.join(", "))
            }
            PmapAxis::Unstacked(size) => format!("Unstacked({size})"),
        };
        let mesh = |axis: &PmapMeshAxis| match axis {
            PmapMeshAxis::ShardedAxis(at) => format!("ShardedAxis(axis={at})"),
            PmapMeshAxis::Replicated(copies) => format!("Replicated(replicas={copies})"),
        };
        let tuple = |items: Vec<String>| match items.as_slice() {
            [only] => format!("({only},)"),
            _ => format!("({})", items.join(", ")),
        };
        let axes = tuple(self.axes.iter().map(axis).collect());
        write!(f, "ShardingSpec({axes}, {})", tuple(self.mesh.iter().map(mesh).collect()))
    }
}

/// Rows of a tensor on a device each: the sharding of values that went through JAX's `pmap`.
///
/// An axis that is chunked has as many indices as chunks, so a device holds one of them. A sharding without chunks replicates,
/// and takes tensors of any number of axes; others take as many as the spec has.
///
/// ```
/// use sharding_core::PmapSharding;
/// use sharding_core::{Device, Shape, Sharding};
/// let devices: Vec<Device> = (0..4).map(|slot| Device::cpu().with_slot(slot)).collect();
/// let shape = Shape::from([8, 4]);
/// let columns = PmapSharding::default(&shape, Some(1), Some(&devices))?;
/// assert_eq!(columns.spec().to_string(), "ShardingSpec((NoSharding(), Chunked(4)), (ShardedAxis(axis=0),))");
/// assert_eq!(columns.shard_shape(&shape)?, Shape::from([8, 1]));
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PmapSharding {
    devices: Ordered,
    spec: PmapSpec,
}

impl PmapSharding {
    /// A spec on these devices, in row-major order of its mesh; in their default memory.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] for no device, one twice, or devices of several kinds; [`ErrorKind::Mapping`] if there are not as
    /// many devices as the spec has places.
    pub fn new(devices: &[Device], spec: PmapSpec) -> Result<Self> {
        Self::build(Ordered::new(devices)?, spec)
    }

    pub(super) fn build(devices: Ordered, spec: PmapSpec) -> Result<Self> {
        let places: usize = spec.mesh_shape().iter().product();
        if places != devices.len() {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!("{spec} is for {places} devices, got {}: {devices}", devices.len()),
            )
            .with_fix(format!("give {places} devices")));
        }
        Ok(Self { devices, spec })
    }

    /// One index of the axis `sharded_dim` on each device: as many devices as the axis is long, the first ones that this
    /// process has in the mesh of the [`Scope`] in force where none are given. Without a `sharded_dim` everything is on each
    /// of `devices`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if neither is given; [`ErrorKind::Axis`] if there is no such axis; [`ErrorKind::Shape`] if it
    /// has no index, or more than there are devices; [`ErrorKind::Mesh`] if there is no mesh in scope; else as
    /// [`PmapSharding::new`].
    pub fn default(shape: &Shape, sharded_dim: Option<usize>, devices: Option<&[Device]>) -> Result<Self> {
        let Some(dim) = sharded_dim else {
            let Some(devices) = devices else {
                return Err(Error::new(
                    ErrorKind::Argument,
                    "a pmap sharding of no axis needs devices to replicate on",
                )
                .with_fix("give sharded_dim or devices"));
            };
            let axes = shape.iter().map(|_| PmapAxis::NoSharding);
            return Self::new(
                devices,
                PmapSpec::new(axes, [PmapMeshAxis::Replicated(devices.len().max(1))])?,
            );
        };
        let Some(rows) = shape.get(dim).copied() else {
            return Err(Error::new(
                ErrorKind::Axis,
                format!("there is no axis {dim} to shard in the shape {shape}"),
            )
            .with_fix(match shape.len() {
                0 => "give None and devices: a zero-dimensional tensor can only be replicated".to_owned(),
                n => format!("use an axis in 0..{n}"),
            }));
        };
        let few = |what: String| {
            Error::new(ErrorKind::Shape, format!("axis {dim} of the shape {shape} has {rows} indices{what}"))
                .with_fix("make the axis as long as there are devices")
        };
        if rows == 0 {
            return Err(few(", so no device would hold one".to_owned()));
        }
        let found: Vec<Device>;
        let devices = match devices {
            Some(devices) => devices,
            None => {
                let scope = Scope::current();
                let Some(mesh) = scope.mesh() else {
                    return Err(Error::new(
                        ErrorKind::Mesh,
                        "a pmap sharding without devices needs a mesh in scope",
                    )
                    .with_fix("give devices, or set_mesh(&mesh) around the call"));
                };
                found = super::Devices::of_process(mesh, scope.process()).take(rows).collect();
                &found
            }
        };
        if devices.len() != rows {
            return Err(few(format!(", for {} devices", devices.len())));
        }
        let axis = |at| if at == dim { PmapAxis::Chunked(vec![rows]) } else { PmapAxis::NoSharding };
        Self::new(devices, PmapSpec::new((0..shape.len()).map(axis), [PmapMeshAxis::ShardedAxis(0)])?)
    }

    /// The same in another memory.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryKind`], naming the kinds that the devices know.
    pub fn in_memory(self, kind: MemoryKind) -> Result<Self> {
        Ok(Self { devices: self.devices.in_memory(kind)?, ..self })
    }

    /// How axes are chunked, and where the chunks are.
    pub fn spec(&self) -> &PmapSpec {
        &self.spec
    }
    /// The devices, in row-major order of the mesh of the spec.
    pub fn devices(&self) -> super::Devices {
        self.devices.devices()
    }

    pub(super) fn order(&self) -> &Ordered {
        &self.devices
    }

    /// Without chunks it takes any number.
    fn only_ndim(&self) -> Option<usize> {
        let uncut = self.spec.axes.iter().all(|axis| *axis == PmapAxis::NoSharding);
        (!uncut).then_some(self.spec.axes.len())
    }
    /// One chunk is the whole axis, as a mesh axis of size 1 splits nothing; a shard that lacks an axis is not the whole.
    fn is_whole(&self) -> bool {
        self.spec.axes.iter().all(|axis| match axis {
            PmapAxis::Unstacked(_) => false,
            axis => axis.chunks().iter().all(|chunks| *chunks == 1),
        })
    }

    fn checked(&self, shape: &Shape) -> Result<(Tiling, Shape)> {
        let tiling = self.tiles(shape.len())?;
        for ((at, axis), extent) in self.spec.axes.iter().enumerate().zip(shape.iter()) {
            let chunks: usize = axis.chunks().iter().product();
            if *axis != PmapAxis::NoSharding && chunks != *extent {
                return Err(Error::new(
                    ErrorKind::Shape,
                    format!("{self} has {chunks} chunks of tensor axis {at}, whose size is {extent} (shape {shape}); each device holds one index"),
                )
                .with_fix(format!("make the axis {chunks} long, or PmapSharding::default(&shape, Some({at}), None)")));
            }
        }
        even(self, tiling, shape)
    }

    fn tiles(&self, ndim: usize) -> Result<Tiling> {
        let whole = Tiling::replicated(self.devices.len(), ndim);
        match self.only_ndim() {
            None => return Ok(whole),
            Some(only) if only != ndim => return Err(wrong_dimensions(self, only, ndim)),
            Some(_) => {}
        }
        let mesh = self.spec.mesh_shape();
        let axes = self.spec.axes.iter().zip(self.spec.split());
        axes.enumerate().try_fold(whole, |tiling, (at, (axis, holders))| {
            let tiling = tiling.cut(at, mesh_digits(&mesh, holders))?;
            Ok(if matches!(axis, PmapAxis::Unstacked(_)) { tiling.dropping(at) } else { tiling })
        })
    }
}

sharding_over_ordered_devices!(PmapSharding);

impl fmt::Display for PmapSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PmapSharding({}, {})", self.spec, self.devices)
    }
}
