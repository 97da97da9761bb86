//! Mesh axes as arguments: by name, by number, or several.

use sharding_core::{DeviceMesh, Error, ErrorKind, Result};
use smallvec::SmallVec;

/// One or several mesh axes: `"tp"`, `1`, `["dp", "tp"]`.
pub trait MeshAxes {
    /// Their numbers on a mesh, in the order given.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for an axis that is not there, [`ErrorKind::DuplicateAxis`] for one given twice.
    fn on(&self, mesh: &DeviceMesh) -> Result<SmallVec<[usize; 4]>>;
}

fn numbered(axis: usize, mesh: &DeviceMesh) -> Result<usize> {
    if axis < mesh.ndim() {
        return Ok(axis);
    }
    let names: Vec<_> = mesh.axis_names().collect();
    Err(Error::new(ErrorKind::Axis, format!("mesh axis {axis} is out of range for {mesh}"))
        .with_fix(format!("use one of {}", names.join(", "))))
}

impl MeshAxes for usize {
    fn on(&self, mesh: &DeviceMesh) -> Result<SmallVec<[usize; 4]>> {
        numbered(*self, mesh).map(|axis| SmallVec::from_slice(&[axis]))
    }
}
impl MeshAxes for str {
    fn on(&self, mesh: &DeviceMesh) -> Result<SmallVec<[usize; 4]>> {
        mesh.axis_index(self).map(|axis| SmallVec::from_slice(&[axis]))
    }
}
impl<T: MeshAxes> MeshAxes for [T] {
    fn on(&self, mesh: &DeviceMesh) -> Result<SmallVec<[usize; 4]>> {
        let mut axes: SmallVec<[usize; 4]> = SmallVec::new();
        for several in self {
            for axis in several.on(mesh)? {
                if axes.contains(&axis) {
                    return Err(Error::new(
                        ErrorKind::DuplicateAxis,
                        format!("the mesh axis '{}' of {mesh} is given twice", mesh.axis_name(axis)),
                    )
                    .with_fix("name each mesh axis once"));
                }
                axes.push(axis);
            }
        }
        Ok(axes)
    }
}
impl<T: MeshAxes, const N: usize> MeshAxes for [T; N] {
    fn on(&self, mesh: &DeviceMesh) -> Result<SmallVec<[usize; 4]>> {
        self.as_slice().on(mesh)
    }
}
impl<T: MeshAxes + ?Sized> MeshAxes for &T {
    fn on(&self, mesh: &DeviceMesh) -> Result<SmallVec<[usize; 4]>> {
        (**self).on(mesh)
    }
}
