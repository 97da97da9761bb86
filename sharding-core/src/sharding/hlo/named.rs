//! Shardings by name as HLO-style shardings.

use super::{HloSharding, MeshAxes};
use crate::sharding::NamedSharding;
use crate::{Error, ErrorKind, MAX_TENSOR_AXES, Result};

impl NamedSharding {
    /// The HLO-style sharding of tensors of `ndim` axes; devices are numbered in row-major order of the mesh.
    ///
    /// Unreduced mesh axes are an unreduced subgroup, and axes of type [`AxisType::Manual`](crate::AxisType::Manual) that the
    /// spec does not name a manual one. Reduced axes and unconstrained entries replicate.
    ///
    /// ```
    /// use sharding_core::{BackendKind, DeviceMesh, NamedSharding, spec};
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [4, 2], ["x", "y"])?;
    /// let sharding = NamedSharding::new(&mesh, spec!["y"])?;
    /// assert_eq!(sharding.hlo(1)?.to_string(), "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
    /// assert_eq!(sharding.hlo(2)?.to_string(), "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Dimensions`] if the spec has more than `ndim` entries, or no tensor so many axes.
    pub fn hlo(&self, ndim: usize) -> Result<HloSharding> {
        let entries = self.spec().entries();
        if ndim > MAX_TENSOR_AXES {
            return Err(Error::new(
                ErrorKind::Dimensions,
                format!("a tensor has at most {MAX_TENSOR_AXES} axes, not {ndim}"),
            )
            .with_fix("ask about as many axes as the tensor has"));
        }
        if entries.len() > ndim {
            return Err(Error::new(
                ErrorKind::Dimensions,
                format!("{self} is for tensors of at least {} axes, not of {ndim}", entries.len()),
            )
            .with_fix(format!("ask about {} axes, or write {ndim} entries", entries.len())));
        }
        let mesh = self.abstract_mesh();
        let mut split: Vec<Vec<usize>> = entries.iter().map(|entry| self.axes_of(entry).collect()).collect();
        split.resize(ndim, Vec::new());
        let axes = MeshAxes {
            split,
            unreduced: self.unreduced_axes(),
            manual: self.unnamed_manual_axes().collect(),
        };
        HloSharding::from_mesh_axes(mesh.shape(), &axes)
    }
}
