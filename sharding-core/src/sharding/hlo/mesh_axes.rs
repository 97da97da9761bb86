//! HLO-style shardings and meshes: which mesh axes split which tensor axes.

use super::runs::{Axes, Run, strides};
use super::{Form, HloKind, HloSharding, Subgroup, TileAssignment};
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;

/// What the axes of a mesh do to a tensor, by number: what a spec says by names.
///
/// Mesh axes that are in none of these replicate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MeshAxes {
    /// For every tensor axis the mesh axes that split it, the most significant first.
    pub split: Vec<Vec<usize>>,
    /// Mesh axes along which each device holds a term of a sum.
    pub unreduced: Vec<usize>,
    /// Mesh axes along which each device has a view of its own.
    pub manual: Vec<usize>,
}

impl HloSharding {
    /// What a sharding by mesh axes puts where, for a tensor of as many axes as `axes.split` has entries. Devices are
    /// numbered in row-major order of a mesh of these `sizes`.
    ///
    /// ```
    /// use sharding_core::sharding::{HloSharding, MeshAxes};
    /// // PartitionSpec("y") on a mesh x=4, y=2, for a tensor of two axes.
    /// let axes = MeshAxes { split: vec![vec![1], vec![]], ..MeshAxes::default() };
    /// let sharding = HloSharding::from_mesh_axes(&[4, 2], &axes)?;
    /// assert_eq!(sharding.to_string(), "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for a mesh axis that is not there, [`ErrorKind::DuplicateAxis`] for one that is used twice;
    /// as [`TileAssignment::iota`] for sizes that are no mesh's.
    pub fn from_mesh_axes(sizes: &[usize], axes: &MeshAxes) -> Result<Self> {
        let mut used = vec![false; sizes.len()];
        let mut order = Axes::new();
        let mut take = |axis: usize| match (sizes.get(axis), used.get_mut(axis)) {
            (Some(size), Some(used)) if !*used => {
                *used = true;
                order.push(axis);
                Ok(*size)
            }
            (Some(_), _) => Err(Error::new(
                ErrorKind::DuplicateAxis,
                format!("the mesh axis {axis} is used twice: {axes:?}"),
            )
            .with_fix("use each mesh axis once")),
            _ => Err(Error::new(
                ErrorKind::Axis,
                format!("there is no mesh axis {axis} in a mesh of {sizes:?}"),
            )
            .with_fix(format!("use mesh axes in 0..{}", sizes.len()))),
        };
        let mut dims = Axes::new();
        for entry in &axes.split {
            dims.push(
                entry.iter().try_fold(1_usize, |n, axis| Ok::<_, Error>(n.saturating_mul(take(*axis)?)))?,
            );
        }
        // The order of these says nothing; the mesh's makes equal shardings equal.
        let mut subgroups: SmallVec<[Subgroup; 4]> = SmallVec::new();
        for (kind, group) in [(Subgroup::Manual, &axes.manual), (Subgroup::Unreduced, &axes.unreduced)] {
            let mut group = group.clone();
            group.sort_unstable();
            for axis in group {
                dims.push(take(axis)?);
                subgroups.push(kind);
            }
        }
        for (axis, size) in sizes.iter().enumerate() {
            if !order.contains(&axis) {
                order.push(axis);
                dims.push(*size);
                subgroups.push(Subgroup::Replicated);
            }
        }
        Self::tiled(TileAssignment::iota(dims, sizes, order)?, subgroups)
    }

    /// The mesh axes that put the same data in the same places, on a mesh of these `sizes` whose devices are numbered in
    /// row-major order: the inverse of [`HloSharding::from_mesh_axes`]. (JAX's `parse_flatten_op_sharding`, for one
    /// sharding; several are [`HloSharding::elements`].) Axes of size 1 are in none of the lists. A replicated, manual or unreduced sharding
    /// does not know how many axes its tensor has: its `split` is empty.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`] if the mesh has another number of devices, or no order of its axes gives these tiles.
    pub fn mesh_axes(&self, sizes: &[usize]) -> Result<MeshAxes> {
        let longer = |(axis, _): (usize, &usize)| axis;
        let all = || sizes.iter().enumerate().filter(|(_, size)| **size > 1).map(longer).collect();
        match &self.0 {
            Form::Whole(Subgroup::Replicated) => Ok(MeshAxes::default()),
            Form::Whole(Subgroup::Manual) => Ok(MeshAxes { manual: all(), ..MeshAxes::default() }),
            Form::Whole(Subgroup::Unreduced) => Ok(MeshAxes { unreduced: all(), ..MeshAxes::default() }),
            Form::Tiled(tiles, subgroups) => self.tile_axes(tiles, subgroups, sizes),
            Form::Maximal(_) | Form::Tuple(_) | Form::Unknown => Err(self.unspelled(
                sizes,
                match self.kind() {
                    HloKind::Tuple => "it is of several tensors: convert each of its elements",
                    HloKind::Maximal => "it uses one device only",
                    _ => "it says nothing",
                },
            )),
        }
    }

    fn tile_axes(&self, tiles: &TileAssignment, subgroups: &[Subgroup], sizes: &[usize]) -> Result<MeshAxes> {
        let devices = sizes.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
        if devices != Some(tiles.num_devices()) {
            return Err(self.unspelled(sizes, "the mesh has another number of devices"));
        }
        let digits =
            tiles.digits().ok_or_else(|| self.unspelled(sizes, "its devices are in no order of axes"))?;
        let mesh: Vec<Run> = sizes
            .iter()
            .zip(&strides(sizes))
            .map(|(size, stride)| Run { size: *size, stride: *stride })
            .collect();
        let data = digits.len().saturating_sub(subgroups.len());
        let mut axes = MeshAxes::default();
        for (dim, group) in digits.iter().enumerate() {
            let mut found = Vec::new();
            for run in group {
                consume(*run, &mesh, &mut found).ok_or_else(|| {
                    self.unspelled(
                        sizes,
                        &format!(
                            "the {} tiles of dimension {dim} end within a mesh axis",
                            tiles.dims().get(dim).copied().unwrap_or(1)
                        ),
                    )
                })?;
            }
            match dim.checked_sub(data).and_then(|at| subgroups.get(at)) {
                None => axes.split.push(found),
                Some(Subgroup::Manual) => axes.manual = found,
                Some(Subgroup::Unreduced) => axes.unreduced = found,
                Some(Subgroup::Replicated) => {}
            }
        }
        axes.manual.sort_unstable();
        axes.unreduced.sort_unstable();
        // A subgroup in another order than the mesh's has no spelling.
        if Self::from_mesh_axes(sizes, &axes)? != *self {
            return Err(self.unspelled(sizes, "the devices of a subgroup are in no order of mesh axes"));
        }
        Ok(axes)
    }

    fn unspelled(&self, sizes: &[usize], why: &str) -> Error {
        let text: String = self.to_string().chars().take(120).collect();
        Error::new(
            ErrorKind::Conversion,
            format!("{text} cannot be said by the axes of a mesh of {sizes:?}: {why}"),
        )
        .with_fix("keep the GspmdSharding, or use a mesh whose axes are the factors of the tile assignment")
    }
}

/// Adds the mesh axes that make up a digit, the most significant first; `None` if it ends within one.
fn consume(run: Run, mesh: &[Run], found: &mut Vec<usize>) -> Option<()> {
    let mut left = run.size;
    while left > 1 {
        // The most significant axis of what is left spans it all.
        let spans =
            |axis: &Run| axis.size > 1 && axis.stride.checked_mul(axis.size) == run.stride.checked_mul(left);
        let at = mesh.iter().position(spans)?;
        let size = mesh.get(at)?.size;
        if !left.is_multiple_of(size) {
            return None;
        }
        found.push(at);
        left /= size;
    }
    Some(())
}
