//! Along which mesh axis the weights of layers are split.

use sharding_core::placement::Ragged;
use sharding_core::split::balanced_sizes;
use sharding_core::{DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Result};

/// How weights lie on a mesh: split along one mesh axis, Replicated on the others.
///
/// ```
/// use sharding_ops::nn::Parallel;
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 5], ["dp", "tp"])?;
/// let tp = Parallel::along(&mesh, "tp")?;
/// // 12 heads of 32 elements: whole heads on every device.
/// let heads = tp.split(0, 12 * 32, 32)?;
/// assert_eq!(heads.places(), [Replicated, Ragged::place(0, [96, 96, 64, 64, 64])]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Parallel {
    mesh: DeviceMesh,
    /// The mesh axis that splits.
    axis: Option<usize>,
}

impl Parallel {
    /// Split along the mesh axis of this name.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] if the mesh has no such axis.
    pub fn along(mesh: &DeviceMesh, axis: &str) -> Result<Self> {
        Ok(Self { axis: Some(mesh.axis_index(axis)?), mesh: mesh.clone() })
    }

    /// Every weight on every device.
    pub fn replicated(mesh: &DeviceMesh) -> Self {
        Self { mesh: mesh.clone(), axis: None }
    }

    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }

    /// How many ways weights are split.
    pub fn ways(&self) -> usize {
        self.axis.map_or(1, |axis| self.mesh.size(axis))
    }

    /// The mapping of what every device holds whole.
    pub fn whole(&self) -> DeviceMapping {
        DeviceMapping::replicated(&self.mesh)
    }

    /// The mapping that splits a tensor axis of this extent in whole units of `unit` indices (1, or the size of a head):
    /// balanced in units, the larger pieces first.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if the extent is not a number of whole units.
    pub fn split(&self, tensor_axis: usize, extent: usize, unit: usize) -> Result<DeviceMapping> {
        let Some(axis) = self.axis else { return Ok(self.whole()) };
        if unit == 0 || !extent.is_multiple_of(unit) {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("tensor axis {tensor_axis} of extent {extent} is no number of whole units of {unit}"),
            )
            .with_mesh_axis(self.mesh.axis_name(axis), self.mesh.size(axis))
            .with_fix("use a unit that divides the extent, as the size of a head divides the width"));
        }
        let sizes: Vec<usize> =
            balanced_sizes(extent / unit, self.mesh.size(axis)).map(|units| units * unit).collect();
        let place = |at| if at == axis { Ragged::place(tensor_axis, &sizes) } else { Place::Replicated };
        DeviceMapping::new(&self.mesh, (0..self.mesh.ndim()).map(place).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_core::BackendKind;

    #[test]
    fn units_stay_whole_and_equal_pieces_are_the_balanced_split() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [3], ["tp"]).unwrap();
        let tp = Parallel::along(&mesh, "tp").unwrap();
        let place = |extent, unit| tp.split(1, extent, unit).unwrap().place(0);
        assert_eq!(place(12, 4), Place::Sharded(1));
        assert_eq!(place(10, 1), Place::Sharded(1));
        assert_eq!(place(8, 2), Ragged::place(1, [4, 2, 2]));
        assert_eq!(place(2, 2), Ragged::place(1, [2, 0, 0]));
        assert_eq!(place(0, 2), Place::Sharded(1));
        assert_eq!(Parallel::replicated(&mesh).split(1, 8, 2).unwrap(), DeviceMapping::replicated(&mesh));
    }

    #[test]
    fn mistakes_are_named() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 3], ["dp", "tp"]).unwrap();
        let text = Parallel::along(&mesh, "pp").unwrap_err().to_string();
        assert!(text.contains("pp") && text.contains("dp, tp"), "{text}");
        let tp = Parallel::along(&mesh, "tp").unwrap();
        for unit in [0, 3] {
            let text = tp.split(0, 8, unit).unwrap_err().to_string();
            assert!(text.contains("no number of whole units") && text.contains("'tp' of size 3"), "{text}");
        }
    }
}
