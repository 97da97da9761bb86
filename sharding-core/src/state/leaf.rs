//! What makes one tensor of a state.

use super::init::{Mode, Site};
use super::path::SpecOf;
use crate::backend::LocalArrays;
use crate::{
    DType, DeviceMapping, DeviceMesh, Error, ErrorKind, NamedSharding, PartitionSpec, RandomKey, Result,
    Shape, Sharding, Tensor, TensorLayout,
};
use std::sync::Arc;

/// What makes one tensor of a state: it knows its dotted name, its spec, the mesh, and a [`RandomKey`] of its own.
///
/// Shape and dtype are what the initialiser says ([`Leaf::shape`], [`Leaf::dtype`]), else what the attribute of the field
/// says, else f32; a source of weights says them where nobody else does.
#[derive(Clone)]
pub struct Leaf<'s> {
    at: Site<'s>,
    mapping: Option<DeviceMapping>,
    shape: Option<Shape>,
    dtype: Option<DType>,
}

impl<'s> Leaf<'s> {
    pub(super) fn new(at: &Site<'s>) -> Self {
        let declared = at.declared();
        Self { mapping: None, shape: declared.shape.clone(), dtype: declared.dtype, at: at.clone() }
    }

    /// Of this global shape.
    #[must_use]
    pub fn shape(&self, shape: impl Into<Shape>) -> Self {
        Self { shape: Some(shape.into()), ..self.clone() }
    }
    /// Of this dtype.
    #[must_use]
    pub fn dtype(&self, dtype: DType) -> Self {
        Self { dtype: Some(dtype), ..self.clone() }
    }
    /// Laid out by this mapping, for a field that is `#[sharding(placed)]`; any placement, unlike a spec. Without it, such a
    /// tensor is Replicated.
    #[must_use]
    pub fn mapping(&self, mapping: &DeviceMapping) -> Self {
        Self { mapping: Some(mapping.clone()), ..self.clone() }
    }

    /// The dotted name.
    pub fn name(&self) -> &str {
        self.at.name()
    }
    /// The spec that is declared; `None` for a field without one.
    pub fn spec(&self) -> Option<&PartitionSpec> {
        match &self.at.declared().spec {
            SpecOf::Spec(spec) => Some(spec),
            SpecOf::Nothing | SpecOf::Placed => None,
        }
    }
    /// The mesh. Where the state is abstract, one of its shape whose devices nobody addresses.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.at.shared().mesh
    }
    /// The key of its random numbers: the stream of its name within the key of the state, so that it is the same on every
    /// mesh, and whatever other tensors there are.
    pub fn key(&self) -> RandomKey {
        self.at.shared().key.named(self.name())
    }
    /// Whether there is such a tensor: true, but for a source of weights without one of this name. For an `Option` that
    /// follows the file.
    pub fn is_there(&self) -> bool {
        match self.at.shared().mode {
            Mode::Load(source) => source.contains(self.name()),
            Mode::Eager | Mode::Abstract => true,
        }
    }

    /// The tensor. What makers are written on: `make` gets its layout and key, and is not called where the state is abstract
    /// or its tensors come from a source.
    ///
    /// What `make` gives may lie otherwise on the mesh: it is redistributed.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] without a shape, or for a mapping where a spec is declared; [`ErrorKind::Axis`] for a mesh axis that
    /// the mesh does not have; [`ErrorKind::Dimensions`] or [`ErrorKind::Indivisible`] for a shape that does not fit the spec;
    /// [`ErrorKind::Shape`] or [`ErrorKind::DType`] if what `make` gives or the source has is another; else what they say. All of them
    /// name the tensor.
    pub fn build(&self, make: impl FnOnce(&TensorLayout, RandomKey) -> Result<Tensor>) -> Result<Tensor> {
        self.made(make).map_err(|error| about(error, self.name()))
    }

    fn made(&self, make: impl FnOnce(&TensorLayout, RandomKey) -> Result<Tensor>) -> Result<Tensor> {
        if let (Some(mapping), SpecOf::Spec(spec)) = (&self.mapping, &self.at.declared().spec) {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("the initialiser places it by {mapping}, and its field by {spec}"),
            )
            .with_fix("#[sharding(placed)] on the field, or no .mapping(..)"));
        }
        match self.at.shared().mode {
            Mode::Abstract => {
                let layout = self.layout(self.wanted_shape()?, self.dtype.unwrap_or(DType::F32))?;
                Ok(Tensor::from_checked(layout, Arc::new([]), LocalArrays::new()))
            }
            Mode::Eager => {
                let layout = self.layout(self.wanted_shape()?, self.dtype.unwrap_or(DType::F32))?;
                let made = make(&layout, self.key())?;
                fits(&made, layout.shape(), layout.dtype(), "the initialiser made")?;
                if made.mapping() == layout.mapping() { Ok(made) } else { made.transfer_to(layout.mapping()) }
            }
            Mode::Load(source) => {
                let meta = source.meta(self.name())?;
                let shape = self.shape.as_ref().unwrap_or(&meta.shape);
                let dtype = self.dtype.unwrap_or(meta.dtype);
                differs(&meta.shape, meta.dtype, shape, dtype, "the source has")?;
                let layout = self.layout(shape.clone(), dtype)?;
                source.tensor(self.name(), layout.mapping())
            }
        }
    }

    fn wanted_shape(&self) -> Result<Shape> {
        self.shape.clone().ok_or_else(|| {
            Error::new(ErrorKind::Argument, "nobody says its shape")
                .with_fix("init.FIELD.shape([4, 8]), or #[sharding(shape = [4, 8])] on the field")
        })
    }

    fn layout(&self, shape: Shape, dtype: DType) -> Result<TensorLayout> {
        let mapping = match (&self.mapping, &self.at.declared().spec) {
            (Some(mapping), _) => mapping.clone(),
            (None, SpecOf::Spec(spec)) => mapping_of(self.mesh(), spec, &shape)?,
            (None, SpecOf::Nothing | SpecOf::Placed) => DeviceMapping::replicated(self.mesh()),
        };
        TensorLayout::new(dtype, shape, mapping)
    }
}

/// What a spec is on a mesh, for a shape that fits it.
pub(super) fn mapping_of(mesh: &DeviceMesh, spec: &PartitionSpec, shape: &Shape) -> Result<DeviceMapping> {
    let sharding = NamedSharding::new(mesh, spec.clone())?;
    sharding.shard_shape(shape)?;
    sharding.spread()
}

/// The error with the name of the tensor that it is about.
pub(super) fn about(error: Error, name: &str) -> Error {
    error.with_detail(format!("about the tensor '{name}' of the state"))
}

/// An error if a tensor has not this shape and dtype.
fn fits(tensor: &Tensor, shape: &Shape, dtype: DType, who: &str) -> Result<()> {
    differs(tensor.shape(), tensor.dtype(), shape, dtype, who)
}

fn differs(have: &Shape, of: DType, shape: &Shape, dtype: DType, who: &str) -> Result<()> {
    let (kind, fix) = if have != shape {
        (ErrorKind::Shape, "say the same shape in the initialiser, or use the weights of this model")
    } else if of != dtype {
        (ErrorKind::DType, "init.FIELD.dtype(..) with the dtype that there is, or cast afterwards")
    } else {
        return Ok(());
    };
    Err(Error::new(kind, format!("{who} {of}{have}, and {dtype}{shape} is wanted")).with_fix(fix))
}
