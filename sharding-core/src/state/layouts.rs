//! What lies where in a state.

use crate::{
    AbstractMesh, DeviceMapping, DeviceMesh, Error, ErrorKind, NamedSharding, Result, Shape, Sharding,
    TensorLayout, TensorMeta,
};
use std::fmt;

/// How a tensor of a state is split: by the spec of its field, or, where the field is `placed` and no spec says the same,
/// by its mapping.
#[derive(Clone, Debug, PartialEq)]
pub enum StateSharding {
    /// By a spec.
    Named(Box<NamedSharding>),
    /// By a mapping that names cannot spell.
    Placed(DeviceMapping),
}

impl StateSharding {
    /// As what all kinds of sharding are.
    pub fn as_sharding(&self) -> &dyn Sharding {
        match self {
            Self::Named(sharding) => &**sharding,
            Self::Placed(mapping) => mapping,
        }
    }

    /// The sharding by name, if it is one.
    pub fn named(&self) -> Option<&NamedSharding> {
        match self {
            Self::Named(sharding) => Some(sharding),
            Self::Placed(_) => None,
        }
    }

    /// The largest local shape of a tensor of this shape; that of the first device for a mapping.
    fn local_shape(&self, shape: &Shape) -> Result<Shape> {
        match self {
            Self::Named(sharding) => sharding.shard_shape(shape),
            Self::Placed(mapping) => Ok(mapping.local_shape(shape, 0)),
        }
    }

    /// The mapping on a mesh of the same axes.
    fn on(&self, mesh: &DeviceMesh) -> Result<DeviceMapping> {
        match self {
            Self::Named(sharding) => NamedSharding::new(mesh, sharding.spec().clone())?.spread(),
            Self::Placed(mapping) => {
                Ok(DeviceMapping::new(mesh, mapping.places())?.with_memory_kind(mapping.memory_kind()))
            }
        }
    }
}

impl fmt::Display for StateSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_sharding(), f)
    }
}

/// A tensor that is not there: its name, dtype, global shape and sharding.
#[derive(Clone, Debug, PartialEq)]
pub struct AbstractTensor {
    pub(super) name: String,
    pub(super) meta: TensorMeta,
    pub(super) sharding: StateSharding,
}

impl AbstractTensor {
    /// The dotted name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// dtype and global shape.
    pub fn meta(&self) -> &TensorMeta {
        &self.meta
    }
    /// How it is split.
    pub fn sharding(&self) -> &StateSharding {
        &self.sharding
    }
}

impl fmt::Display for AbstractTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.name, self.meta, self.sharding)
    }
}

/// The layouts of a state, in the order of declaration; see [`abstract_sharded_state`](super::abstract_sharded_state).
#[derive(Clone, Debug, PartialEq)]
pub struct StateLayouts {
    pub(super) mesh: AbstractMesh,
    pub(super) tensors: Vec<AbstractTensor>,
}

impl StateLayouts {
    /// The mesh.
    pub fn mesh(&self) -> &AbstractMesh {
        &self.mesh
    }
    /// All tensors.
    pub fn iter(&self) -> std::slice::Iter<'_, AbstractTensor> {
        self.tensors.iter()
    }
    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&AbstractTensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// Bytes of all tensors, each counted once.
    pub fn bytes(&self) -> usize {
        self.tensors.iter().fold(0, |sum, tensor| sum.saturating_add(tensor.meta.bytes()))
    }
    /// Bytes that the first device holds: the most of any, unless a placement of the open trait gives another more.
    ///
    /// # Errors
    /// None for what [`abstract_sharded_state`](super::abstract_sharded_state) gives.
    pub fn bytes_per_device(&self) -> Result<usize> {
        self.tensors.iter().try_fold(0_usize, |sum, tensor| {
            let local = tensor.sharding.local_shape(&tensor.meta.shape)?;
            Ok(sum.saturating_add(local.elements().saturating_mul(tensor.meta.dtype.size())))
        })
    }

    /// The layouts on devices.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if the mesh has another shape or other names.
    pub fn on(&self, mesh: &DeviceMesh) -> Result<Vec<(String, TensorLayout)>> {
        if mesh.shape() != self.mesh.shape() || !mesh.axis_names().eq(self.mesh.axis_names()) {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("the layouts are for {}, not for {mesh}", self.mesh),
            )
            .with_fix("abstract_sharded_state on mesh.to_abstract()"));
        }
        let layout = |tensor: &AbstractTensor| {
            let mapping = tensor.sharding.on(mesh)?;
            Ok((tensor.name.clone(), TensorLayout::new(tensor.meta.dtype, &tensor.meta.shape, mapping)?))
        };
        self.tensors.iter().map(layout).collect()
    }
}

impl<'a> IntoIterator for &'a StateLayouts {
    type Item = &'a AbstractTensor;
    type IntoIter = std::slice::Iter<'a, AbstractTensor>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
