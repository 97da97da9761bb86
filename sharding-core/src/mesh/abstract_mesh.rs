//! Meshes without devices.

use super::axis_type::{self, AxisType, AxisTypes};
use super::check::{checked_names, checked_size};
use super::grid::Grid;
use crate::{Device, DeviceMesh, Result};
use smallvec::SmallVec;
use std::fmt;

/// A mesh without devices: shape, axis names and axis types.
///
/// Layouts and index maps need no more. Equality is by all three: where there are no devices, an abstract mesh says only
/// what holds for every mesh made from it.
///
/// ```
/// use sharding_core::{AbstractMesh, AxisType, Device};
/// let mesh = AbstractMesh::new([2, 4], ["dp", "tp"])?.with_axis_type("tp", AxisType::Explicit)?;
/// assert_eq!((mesh.num_devices(), mesh.device_coord(6, &[1])?), (8, 2));
/// let devices: Vec<Device> = (0..8).map(|i| Device::cpu().with_slot(i)).collect();
/// let concrete = mesh.with_devices(&devices)?;
/// assert_eq!(concrete.to_abstract(), mesh);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AbstractMesh {
    grid: Grid,
    axis_types: AxisTypes,
}

impl AbstractMesh {
    /// A mesh of this shape, with [`AxisType::Auto`] on every axis.
    ///
    /// # Errors
    /// As [`DeviceMesh::new`], but for what concerns devices.
    pub fn new<N: AsRef<str>>(shape: impl AsRef<[usize]>, names: impl AsRef<[N]>) -> Result<Self> {
        let shape = shape.as_ref();
        checked_size(shape)?;
        let names = checked_names(names.as_ref(), shape)?;
        let axis_types = SmallVec::from_elem(AxisType::Auto, shape.len());
        Ok(Self { grid: Grid { shape: shape.into(), names }, axis_types })
    }

    /// A mesh whose parts are known to fit.
    pub(super) fn from_parts(grid: Grid, axis_types: AxisTypes) -> Self {
        Self { grid, axis_types }
    }

    pub(super) fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The same mesh with other axis types.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`](crate::ErrorKind::Mesh) if there is not one type per mesh axis.
    pub fn with_axis_types(&self, types: impl AsRef<[AxisType]>) -> Result<Self> {
        let axis_types = axis_type::checked(self, self.ndim(), types.as_ref())?;
        Ok(Self { grid: self.grid.clone(), axis_types })
    }

    /// The same mesh with another type of one axis.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for a name that the mesh does not have.
    pub fn with_axis_type(&self, name: &str, axis_type: AxisType) -> Result<Self> {
        let axis_types = axis_type::replaced(&self.axis_types, self.axis_index(name)?, axis_type);
        Ok(Self { grid: self.grid.clone(), axis_types })
    }

    /// The mesh of these devices, in row-major order, with this shape, names and axis types.
    ///
    /// # Errors
    /// As [`DeviceMesh::new`].
    pub fn with_devices(&self, devices: &[Device]) -> Result<DeviceMesh> {
        DeviceMesh::new(devices, self.shape(), &self.grid.names)?.with_axis_types(&self.axis_types)
    }

    /// The number of mesh axes.
    pub fn ndim(&self) -> usize {
        self.grid.shape.len()
    }
    /// The size of each mesh axis.
    pub fn shape(&self) -> &[usize] {
        &self.grid.shape
    }
    /// The number of devices that a mesh of this shape has.
    pub fn num_devices(&self) -> usize {
        self.grid.num_devices()
    }
    /// The name of each mesh axis.
    pub fn axis_names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.grid.axis_names()
    }
    /// The type of each mesh axis.
    pub fn axis_types(&self) -> &[AxisType] {
        &self.axis_types
    }
    /// The names of the axes of a type, in mesh order.
    pub fn axes_of_type(&self, axis_type: AxisType) -> impl Iterator<Item = &str> + Clone {
        self.axis_names().zip(&self.axis_types).filter(move |(_, t)| **t == axis_type).map(|(name, _)| name)
    }
    /// The name of one mesh axis; empty where there is none.
    pub fn axis_name(&self, axis: usize) -> &str {
        self.grid.axis_name(axis)
    }
    /// The size of one mesh axis; 1 where there is none.
    pub fn size(&self, axis: usize) -> usize {
        self.grid.size(axis)
    }
    /// The axis of that name.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`](crate::ErrorKind::Axis), listing the names there are.
    pub fn axis_index(&self, name: &str) -> Result<usize> {
        self.grid.axis_index(self, name)
    }

    /// The number of devices along several mesh axes together (row-major as given; an axis may repeat).
    ///
    /// # Errors
    /// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there.
    pub fn axis_size(&self, axes: &[usize]) -> Result<usize> {
        self.grid.axis_size(self, axes)
    }
    /// The coordinate of a position along several mesh axes together (row-major as given; an axis may repeat).
    ///
    /// # Errors
    /// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis or a position that is not there.
    pub fn device_coord(&self, position: usize, axes: &[usize]) -> Result<usize> {
        self.grid.device_coord(self, position, axes)
    }
    /// The coordinate of a position on one axis; 0 where there is no such axis.
    pub fn coord(&self, position: usize, axis: usize) -> usize {
        self.grid.coord(position, axis)
    }
    /// The row-major distance between neighbours on one axis.
    pub fn stride(&self, axis: usize) -> usize {
        self.grid.stride(axis)
    }
    /// The positions of the group of `position` along `axes` (all that differ from it only there), in row-major order
    /// over `axes` as given; an axis that repeats counts once.
    pub fn group(&self, position: usize, axes: &[usize]) -> SmallVec<[usize; 8]> {
        self.grid.group(position, axes)
    }

    /// The mesh of these axes, in the order given.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there,
    /// [`ErrorKind::DuplicateAxis`](crate::ErrorKind::DuplicateAxis) for one given twice;
    /// [`ErrorKind::Mesh`](crate::ErrorKind::Mesh) for no axis.
    pub fn sub_mesh(&self, axes: &[usize]) -> Result<Self> {
        self.grid.check_kept(self, axes)?;
        let axis_types = axes.iter().filter_map(|axis| self.axis_types.get(*axis).copied()).collect();
        Ok(Self { grid: self.grid.keep(axes), axis_types })
    }
}

impl fmt::Display for AbstractMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.grid.write(f, "AbstractMesh")
    }
}
impl fmt::Debug for AbstractMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
