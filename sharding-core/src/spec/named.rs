//! Specs resolved on a mesh.

use super::PartitionSpec;
use super::entry::Names;
use crate::{
    DeviceMapping, DeviceMesh, Error, ErrorKind, MAX_TENSOR_AXES, MemoryKind, Place, Places, Result, Scope,
    placement::sharded,
};
use smallvec::smallvec;
use std::fmt;

/// A mesh, a [`PartitionSpec`], and the names of mesh axes over which the parts are still to be summed.
///
/// Names resolve in mesh order: `("tp", "dp")` on a mesh `dp, tp` splits like `("dp", "tp")`. A name that the mesh does
/// not have means Replicated, so one spec serves meshes with and without an axis; it is kept, and counts again where
/// [`NamedMapping::on`] resolves the spec on a mesh that has it.
///
/// ```
/// use sharding_core::{BackendKind, DeviceMesh, NamedMapping, Place, spec};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 4], ["dp", "tp"])?;
/// let named = NamedMapping::new(&mesh, spec!["tp", None])?.with_unreduced(["dp"])?;
/// assert_eq!(named.mapping().places(), [Place::PARTIAL, Place::Sharded(0)]);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NamedMapping {
    spec: PartitionSpec,
    // Sorted, without repeats.
    unreduced: Names,
    mapping: DeviceMapping,
}

impl NamedMapping {
    /// A spec resolved on a mesh, in device memory. Unreduced axes of the spec are those of the mapping; reduced ones replicate.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`] for an unconstrained entry, if an axis of the mesh is used twice, or splits a tensor axis that no tensor has.
    pub fn new(mesh: &DeviceMesh, spec: PartitionSpec) -> Result<Self> {
        let unreduced = spec.unreduced().map(Into::into).collect();
        Self::resolve(mesh, spec, unreduced)
    }

    /// A spec resolved on the default mesh of the [`Scope`] in force.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if there is no default mesh; else as [`NamedMapping::new`].
    pub fn scoped(spec: PartitionSpec) -> Result<Self> {
        match Scope::current().mesh() {
            Some(mesh) => Self::new(mesh, spec),
            None => Err(Error::new(ErrorKind::Mesh, format!("{spec} has no mesh to be resolved on"))
                .with_fix("NamedMapping::new(&mesh, spec), or set_mesh(&mesh, || ..) around the call")),
        }
    }

    /// This mapping with the parts still to be summed over these mesh axes; names that the mesh does not have count
    /// on other meshes only.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`] if an axis of the mesh is named twice, or splits a tensor axis already.
    pub fn with_unreduced<N: AsRef<str>>(self, names: impl IntoIterator<Item = N>) -> Result<Self> {
        let names = names.into_iter().map(|name| name.as_ref().into());
        let memory = self.mapping.memory_kind();
        let resolved =
            Self::resolve(self.mapping.mesh(), self.spec, self.unreduced.into_iter().chain(names).collect())?;
        Ok(Self { mapping: resolved.mapping.with_memory_kind(memory), ..resolved })
    }

    /// The same spec and unreduced names on another mesh; memory kind kept.
    ///
    /// # Errors
    /// As [`NamedMapping::new`] and [`NamedMapping::with_unreduced`].
    pub fn on(&self, mesh: &DeviceMesh) -> Result<Self> {
        let resolved = Self::resolve(mesh, self.spec.clone(), self.unreduced.clone())?;
        Ok(Self { mapping: resolved.mapping.with_memory_kind(self.mapping.memory_kind()), ..resolved })
    }

    /// The same in another memory.
    #[must_use]
    pub fn in_memory(self, memory: MemoryKind) -> Self {
        Self { mapping: self.mapping.with_memory_kind(memory), ..self }
    }

    /// The spec as it was given, with the names that the mesh does not have.
    pub fn spec(&self) -> &PartitionSpec {
        &self.spec
    }
    /// The unreduced names, sorted, with those that the mesh does not have.
    pub fn unreduced(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.unreduced.iter().map(|name| &**name)
    }
    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        self.mapping.mesh()
    }
    /// What the names resolve to: one placement per mesh axis.
    pub fn mapping(&self) -> &DeviceMapping {
        &self.mapping
    }

    /// A named mapping that is known to resolve to `mapping`.
    pub(super) fn from_parts(spec: PartitionSpec, unreduced: Names, mapping: DeviceMapping) -> Self {
        Self { spec, unreduced, mapping }
    }

    fn resolve(mesh: &DeviceMesh, spec: PartitionSpec, mut unreduced: Names) -> Result<Self> {
        let mut places: Places = smallvec![Place::Replicated; mesh.ndim()];
        split_places(mesh, &spec, &mut places)?;
        for name in &unreduced {
            let Some(axis) = axis_of(mesh, name) else { continue };
            let refuse = |what: String| {
                Err(Error::new(ErrorKind::Conversion, what).with_mesh_axis(name.as_ref(), mesh.size(axis)))
            };
            match places.get_mut(axis) {
                Some(slot @ Place::Replicated) => *slot = Place::PARTIAL,
                Some(Place::Partial(_)) => {
                    return refuse(format!("the mesh axis '{name}' is named twice as unreduced"));
                }
                _ => {
                    return refuse(format!(
                        "the mesh axis '{name}' is unreduced and also splits a tensor axis in {spec}"
                    ));
                }
            }
        }
        unreduced.sort_unstable();
        unreduced.dedup();
        Ok(Self { mapping: DeviceMapping::new(mesh, places)?, spec, unreduced })
    }
}

pub(super) fn axis_of(mesh: &DeviceMesh, name: &str) -> Option<usize> {
    mesh.axis_names().position(|known| known == name)
}

/// Writes what a spec says about each mesh axis; names that the mesh does not have are passed over.
pub(super) fn split_places(mesh: &DeviceMesh, spec: &PartitionSpec, places: &mut [Place]) -> Result<()> {
    spec.check_said()?;
    for (tensor_axis, entry) in spec.entries().iter().enumerate() {
        for name in entry.names() {
            let Some(axis) = axis_of(mesh, name) else { continue };
            let refuse = |what: String| {
                Err(Error::new(ErrorKind::Conversion, what).with_mesh_axis(name, mesh.size(axis)))
            };
            if tensor_axis >= MAX_TENSOR_AXES {
                return refuse(format!(
                    "the spec splits tensor axis {tensor_axis}; a tensor has at most {MAX_TENSOR_AXES} axes"
                ));
            }
            match places.get_mut(axis) {
                Some(slot @ Place::Replicated) => *slot = sharded(tensor_axis),
                _ => return refuse(format!("the mesh axis '{name}' is used twice in {spec}")),
            }
        }
    }
    Ok(())
}

impl AsRef<DeviceMapping> for NamedMapping {
    fn as_ref(&self) -> &DeviceMapping {
        &self.mapping
    }
}

impl fmt::Display for NamedMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedMapping({}, {}", self.mesh(), self.spec)?;
        for (i, name) in self.unreduced().enumerate() {
            write!(f, "{}{name:?}", if i == 0 { ", unreduced: [" } else { ", " })?;
        }
        f.write_str(if self.unreduced.is_empty() { ")" } else { "])" })
    }
}
impl fmt::Debug for NamedMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
