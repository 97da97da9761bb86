//! Arrays of device sets.

use super::hlo::TileAssignment;
use super::ordered::{Grid, Ordered, even, sharding_over_ordered_devices, wrong_dimensions};
use super::{MemoryKind, Tiling};
use crate::{Device, DeviceMesh, Error, ErrorKind, Result, Shape};
use smallvec::SmallVec;
use std::fmt;

/// An array of sets of devices: every device of a set holds the tile at its set's place. JAX's sharding of that name, which
/// is reshaped, transposed and replicated like an array.
///
/// A tensor has as many axes as this array; one whose extents are all 1 takes tensors of any number of axes. The device order
/// is that in which the devices were given, whatever became of the array.
///
/// ```
/// use sharding_core::PositionalSharding;
/// use sharding_core::{Device, Shape, Sharding};
/// let devices: Vec<Device> = (0..8).map(|slot| Device::cpu().with_slot(slot)).collect();
/// let grid = PositionalSharding::new(&devices, [8])?.reshape(&[4, -1])?;
/// let columns = grid.replicate(Some(&[0]), true)?;
/// assert_eq!(columns.shape(), [1, 2]);
/// assert_eq!(columns.shard_shape(&Shape::from([8, 4]))?, Shape::from([8, 2]));
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PositionalSharding {
    devices: Ordered,
    // One dimension more than the array: the members of a set, in ascending order.
    grid: Grid,
}

impl PositionalSharding {
    /// One device in each set, row by row in an array of this shape; in their default memory.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] for no device, one twice, or devices of several kinds; [`ErrorKind::Shape`] if the shape has
    /// another number of places.
    pub fn new(devices: &[Device], shape: impl AsRef<[usize]>) -> Result<Self> {
        let ordered = Ordered::new(devices)?;
        let shape = shape.as_ref();
        if shape.iter().try_fold(1_usize, |n, extent| n.checked_mul(*extent)) != Some(devices.len()) {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("{} devices do not fill an array of shape {shape:?}", devices.len()),
            )
            .with_fix("give as many devices as the product of the extents"));
        }
        Self::singletons(ordered, shape)
    }

    /// One device in each set, in the shape of a mesh.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] for a mesh of more devices than fit.
    pub fn on(mesh: &DeviceMesh) -> Result<Self> {
        Self::singletons(Ordered::on(mesh), mesh.shape())
    }

    /// The same in another memory; reshapes and replications are kept.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryKind`], naming the kinds that the devices know.
    pub fn in_memory(self, kind: MemoryKind) -> Result<Self> {
        Ok(Self { devices: self.devices.in_memory(kind)?, ..self })
    }

    fn singletons(devices: Ordered, shape: &[usize]) -> Result<Self> {
        let dims: Vec<usize> = shape.iter().copied().chain([1]).collect();
        Self::build(devices, TileAssignment::row_major(dims)?)
    }

    /// An array of sets, of which the last dimension counts the members.
    pub(super) fn build(devices: Ordered, tiles: TileAssignment) -> Result<Self> {
        Ok(Self { devices, grid: Grid::new(tiles.with_last_axis_sorted()?)? })
    }

    /// The extents of the array.
    pub fn shape(&self) -> &[usize] {
        self.split().0
    }
    /// The number of its axes.
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }
    /// How many devices each set has.
    pub fn set_size(&self) -> usize {
        self.split().1
    }
    fn split(&self) -> (&[usize], usize) {
        self.tiles_with_sets().dims().split_last().map_or((&[], 1), |(members, shape)| (shape, *members))
    }
    /// The devices of the set at a row-major position of the array, in device order.
    pub fn device_set_at(&self, position: usize) -> Option<Vec<Device>> {
        let members = self.set_size();
        let begin = position.checked_mul(members)?;
        let device = |at| self.devices.mesh.device(self.grid.tiles.device(at)?);
        (begin..begin.checked_add(members)?).map(device).collect()
    }
    /// The sets by number of device, with the dimension of the members last.
    pub(super) fn tiles_with_sets(&self) -> &TileAssignment {
        &self.grid.tiles
    }

    /// The same sets, row by row in an array of another shape. One extent may be -1: what the others leave.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if the products differ, an extent is 0 or below -1, or two are -1.
    pub fn reshape(&self, extents: &[isize]) -> Result<Self> {
        let sets: usize = self.shape().iter().product();
        let refused = |what: &str| {
            Error::new(
                ErrorKind::Shape,
                format!("{sets} device sets cannot take the shape {extents:?}: {what}"),
            )
            .with_fix(format!("give extents with the product {sets}; one of them may be -1"))
        };
        let mut known = 1_usize;
        let mut open = 0;
        for extent in extents {
            match usize::try_from(*extent) {
                Ok(0) => return Err(refused("an extent is 0")),
                Ok(extent) => {
                    known = known.checked_mul(extent).ok_or_else(|| refused("the product does not fit"))?
                }
                Err(_) if *extent == -1 => open += 1,
                Err(_) => return Err(refused("an extent is below -1")),
            }
        }
        let left = match open {
            0 if known == sets => 1,
            1 if sets.is_multiple_of(known) => sets.checked_div(known).unwrap_or(1),
            0 => return Err(refused(&format!("the product is {known}"))),
            1 => return Err(refused(&format!("{known} does not divide {sets}"))),
            _ => return Err(refused("two extents are -1")),
        };
        let extent = |extent: &isize| usize::try_from(*extent).unwrap_or(left);
        let dims: SmallVec<[usize; 4]> = extents.iter().map(extent).chain([self.set_size()]).collect();
        Ok(Self { devices: self.devices.clone(), grid: Grid::new(self.grid.tiles.reshape(&dims)?)? })
    }

    /// The array with its axes in another order: axis `i` of the result is axis `order[i]`; a negative one counts from the
    /// back. No order reverses them.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] if an axis is not there, is named twice or left out; [`ErrorKind::Overflow`] if it takes a list of
    /// more devices than are listed.
    pub fn transpose(&self, order: &[isize]) -> Result<Self> {
        let ndim = self.ndim();
        let mut order = match order {
            [] => (0..ndim).rev().collect(),
            order => self.axes(order)?,
        };
        if order.len() != ndim {
            return Err(Error::new(
                ErrorKind::Axis,
                format!("an order of {} axes for an array of {ndim}: {self}", order.len()),
            )
            .with_fix("name each axis once, or none to reverse them"));
        }
        order.push(ndim);
        Ok(Self { devices: self.devices.clone(), grid: Grid::new(self.grid.tiles.transpose(&order)?)? })
    }
    /// The array with its axes reversed.
    ///
    /// # Errors
    /// As [`PositionalSharding::transpose`].
    pub fn t(&self) -> Result<Self> {
        self.transpose(&[])
    }

    /// The array with the sets along some axes united: what lay on one of them lies on all. A negative axis counts from the
    /// back; `None` unites all sets. With `keepdims` these axes stay, with the extent 1; else the array loses them.
    ///
    /// # Errors
    /// As [`PositionalSharding::transpose`].
    pub fn replicate(&self, axes: Option<&[isize]>, keepdims: bool) -> Result<Self> {
        let (shape, members) = self.split();
        let united = match axes {
            Some(axes) => self.axes(axes)?,
            None => (0..shape.len()).collect(),
        };
        let is_kept = |axis: &usize| !united.contains(axis);
        let mut order: SmallVec<[usize; 4]> = (0..shape.len()).filter(is_kept).collect();
        order.extend_from_slice(&united);
        order.push(shape.len());
        let mut dims: SmallVec<[usize; 4]> = SmallVec::new();
        let mut united_members = members;
        for (axis, extent) in shape.iter().enumerate() {
            if is_kept(&axis) {
                dims.push(*extent);
            } else {
                united_members *= extent;
                dims.extend(keepdims.then_some(1));
            }
        }
        dims.push(united_members);
        Self::build(self.devices.clone(), self.grid.tiles.transpose(&order)?.reshape(&dims)?)
    }

    /// Axes counted from the front, each named once at most.
    fn axes(&self, axes: &[isize]) -> Result<SmallVec<[usize; 4]>> {
        let shape = Shape::from(self.shape());
        let mut found = SmallVec::new();
        for axis in axes {
            let axis = shape.axis(*axis)?;
            if found.contains(&axis) {
                return Err(Error::new(ErrorKind::Axis, format!("axis {axis} is named twice in {axes:?}"))
                    .with_fix("name each axis once"));
            }
            found.push(axis);
        }
        Ok(found)
    }

    pub(super) fn order(&self) -> &Ordered {
        &self.devices
    }
    fn is_whole(&self) -> bool {
        self.shape().iter().all(|extent| *extent == 1)
    }
    fn only_ndim(&self) -> Option<usize> {
        (!self.is_whole()).then(|| self.ndim())
    }
    fn checked(&self, shape: &Shape) -> Result<(Tiling, Shape)> {
        even(self, self.tiles(shape.len())?, shape)
    }
    fn tiles(&self, ndim: usize) -> Result<Tiling> {
        match self.only_ndim() {
            None => Ok(Tiling::replicated(self.devices.len(), ndim)),
            Some(only) if only != ndim => Err(wrong_dimensions(self, only, ndim)),
            Some(_) => self.grid.tiling(ndim),
        }
    }
}

sharding_over_ordered_devices!(PositionalSharding);

impl fmt::Display for PositionalSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PositionalSharding({:?} of sets of {}, {})", self.shape(), self.set_size(), self.devices)
    }
}
