//! What in_specs and out_specs say about the mesh of a region.

use super::grid::{Axes, Grid};
use crate::placement::sharded;
use crate::sharding::indivisible;
use crate::{
    DeviceMapping, DeviceMesh, Error, ErrorKind, MemoryKind, PartitionSpec, Place, Places, Result, Shape,
    TensorLayout,
};

/// A spec with its names resolved: for each tensor axis the manual mesh axes that split it, the most significant first.
pub(super) struct Spec {
    text: PartitionSpec,
    entries: Vec<Axes>,
}

impl Spec {
    /// # Errors
    /// [`ErrorKind::Axis`] for a name that the mesh lacks or that is not manual, [`ErrorKind::DuplicateAxis`] for one used
    /// twice, [`ErrorKind::Mapping`] for what a region has no use for.
    pub(super) fn new(grid: &Grid, spec: PartitionSpec, what: &str, i: usize) -> Result<Self> {
        Self::resolve(grid, &spec)
            .map(|entries| Self { text: spec.clone(), entries })
            .map_err(|error| error.with_op("shard_map").with_operands([format!("{what}[{i}]: {spec}")]))
    }

    fn resolve(grid: &Grid, spec: &PartitionSpec) -> Result<Vec<Axes>> {
        let names = || spec.entries().iter().flat_map(|entry| entry.names());
        if let Some(twice) =
            names().enumerate().find(|(i, name)| names().take(*i).any(|other| other == *name))
        {
            return Err(Error::new(
                ErrorKind::DuplicateAxis,
                format!("the mesh axis '{}' is used twice", twice.1),
            )
            .with_fix("let a mesh axis split one tensor axis"));
        }
        let open = spec.entries().iter().any(|entry| entry.is_unconstrained());
        if open || spec.unreduced().len() + spec.reduced().len() > 0 {
            return Err(Error::new(
                ErrorKind::Mapping,
                "specs of a region say which mesh axes split what, and no more",
            )
            .with_fix("name mesh axes, or None; what is unreduced becomes whole by cx.psum(&x, axis)"));
        }
        spec.entries()
            .iter()
            .map(|entry| if entry.is_none() { Ok(Axes::new()) } else { grid.axes(entry.names()) })
            .collect()
    }

    pub(super) fn text(&self) -> &PartitionSpec {
        &self.text
    }
    pub(super) fn names(&self, axis: usize) -> bool {
        self.entries.iter().any(|entry| entry.contains(&axis))
    }
    /// The tensor axes that manual axes split.
    pub(super) fn split(&self) -> Vec<usize> {
        (0..self.entries.len())
            .filter(|axis| self.entries.get(*axis).is_some_and(|entry| !entry.is_empty()))
            .collect()
    }
    fn ways(&self, grid: &Grid, tensor_axis: usize) -> usize {
        self.entries.get(tensor_axis).into_iter().flatten().map(|axis| grid.mesh.size(*axis)).product()
    }

    /// # Errors
    /// [`ErrorKind::Dimensions`] if the spec has more entries than a value of this shape has axes.
    pub(super) fn check_dimensions(&self, shape: &Shape) -> Result<()> {
        if self.entries.len() <= shape.len() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Dimensions,
            format!(
                "{} has {} entries, the shape {shape} has {} tensor axes",
                self.text,
                self.entries.len(),
                shape.len()
            ),
        )
        .with_fix("give at most one entry per tensor axis"))
    }

    /// The shape of a member's block of a value of this shape.
    ///
    /// # Errors
    /// As [`Spec::check_dimensions`]; [`ErrorKind::Indivisible`] where an extent does not divide by its ways.
    pub(super) fn block(&self, grid: &Grid, shape: &Shape) -> Result<Shape> {
        self.check_dimensions(shape)?;
        let mut block = shape.clone();
        for axis in self.split() {
            let (ways, extent) = (self.ways(grid, axis), shape.extent(axis));
            if extent % ways != 0 {
                return Err(indivisible(&self.text, axis, ways, shape, ""));
            }
            block = block.with_extent(axis, extent / ways);
        }
        Ok(block)
    }

    /// The shape of the whole of which members have blocks of this shape.
    ///
    /// # Errors
    /// As [`Spec::check_dimensions`]; [`ErrorKind::Overflow`].
    pub(super) fn whole(&self, grid: &Grid, block: &Shape) -> Result<Shape> {
        self.check_dimensions(block)?;
        let mut shape = block.clone();
        for axis in self.split() {
            let extent = block.extent(axis).checked_mul(self.ways(grid, axis)).ok_or_else(|| {
                Error::new(ErrorKind::Overflow, format!("blocks of {block} are too large together"))
            })?;
            shape = shape.with_extent(axis, extent);
        }
        Shape::new(shape)
    }

    /// The mesh on which this spec is a mapping: that of the region, or, where several names of an entry are not in its order,
    /// the same devices with the axes in theirs. And the region's axes in the order of that mesh.
    pub(super) fn mesh(&self, grid: &Grid) -> Result<(DeviceMesh, Axes)> {
        let mesh = &grid.mesh;
        if self.entries.iter().all(|entry| mesh.in_order(entry.iter().copied())) {
            return Ok((mesh.clone(), (0..mesh.ndim()).collect()));
        }
        mesh.with_first(self.entries.iter().flatten().copied())
    }

    /// The mapping of a value by this spec on its mesh, with these placements on the axes that are not manual, in this memory.
    pub(super) fn mapping(
        &self,
        grid: &Grid,
        rest: &[Place],
        memory: MemoryKind,
    ) -> Result<(DeviceMapping, Axes)> {
        let (mesh, order) = self.mesh(grid)?;
        let place = |axis: &usize| {
            let splits = self.entries.iter().position(|entry| entry.contains(axis));
            match (splits, grid.rest.iter().position(|other| other == axis)) {
                (Some(tensor_axis), _) => sharded(tensor_axis),
                (None, Some(i)) => rest.get(i).copied().unwrap_or(Place::Replicated),
                (None, None) => Place::Replicated,
            }
        };
        let places: Places = order.iter().map(place).collect();
        Ok((DeviceMapping::new(&mesh, places)?.with_memory_kind(memory), order))
    }

    /// What an argument keeps on the axes that are not manual: its own placements, where they do not split a tensor axis that
    /// the spec splits too.
    pub(super) fn kept(&self, grid: &Grid, layout: &TensorLayout) -> Result<Places> {
        let moves = self.mesh(grid)?.0 != *layout.mesh();
        let split = self.split();
        Ok(grid
            .rest
            .iter()
            .map(|axis| match layout.mapping().place(*axis) {
                // Parts do not move between grids.
                Place::Partial(_) if moves => Place::Replicated,
                place if place.tensor_axis().is_some_and(|axis| split.contains(&axis)) => Place::Replicated,
                place => place,
            })
            .collect())
    }
}
