//! Dotted names, and what is declared at them.

use crate::{DType, PartitionSpec, Shape};
use std::fmt;

/// What the attribute of a field says about its tensors.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    pub(super) spec: SpecOf,
    pub(super) shape: Option<Shape>,
    pub(super) dtype: Option<DType>,
}

/// Where a tensor's sharding comes from.
#[derive(Clone, Debug, Default)]
pub(super) enum SpecOf {
    /// Nothing is said: Replicated.
    #[default]
    Nothing,
    /// It is declared.
    Spec(PartitionSpec),
    /// It is where the tensor lies.
    Placed,
}

impl Declared {
    /// Nothing: Replicated, of a shape and a dtype that the initialiser says.
    pub const fn new() -> Self {
        Self { spec: SpecOf::Nothing, shape: None, dtype: None }
    }
    /// With this spec.
    #[must_use]
    pub fn spec(self, spec: PartitionSpec) -> Self {
        Self { spec: SpecOf::Spec(spec), ..self }
    }
    /// With the sharding that the tensor has.
    #[must_use]
    pub fn placed(self) -> Self {
        Self { spec: SpecOf::Placed, ..self }
    }
    /// Of this global shape.
    #[must_use]
    pub fn shape(self, shape: impl Into<Shape>) -> Self {
        Self { shape: Some(shape.into()), ..self }
    }
    /// Of this dtype.
    #[must_use]
    pub fn dtype(self, dtype: DType) -> Self {
        Self { dtype: Some(dtype), ..self }
    }
}

/// A place in a state: the way from its root, which costs nothing until the name is wanted, and what is declared there.
#[derive(Clone, Copy)]
pub struct StatePath<'a> {
    parent: Option<&'a StatePath<'a>>,
    part: Part<'a>,
    declared: &'a Declared,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

static NOTHING: Declared = Declared::new();

impl<'a> StatePath<'a> {
    /// The state itself.
    pub const fn root() -> Self {
        Self { parent: None, part: Part::Root, declared: &NOTHING }
    }
    /// A field of this place.
    pub fn field(&'a self, name: &'a str, declared: &'a Declared) -> Self {
        Self { parent: Some(self), part: Part::Name(name), declared }
    }
    /// An element of this place; what is declared for all of them is declared for it.
    pub fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), part: Part::Index(index), declared: self.declared }
    }
    /// An entry of this place by its key; what is declared for all of them is declared for it.
    pub fn entry(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), part: Part::Name(key), declared: self.declared }
    }

    /// The dotted name (`layers.0.attn.q.weight`); empty for the state itself.
    pub fn name(&self) -> String {
        self.to_string()
    }
    /// What is declared here.
    pub fn declared(&self) -> &Declared {
        self.declared
    }
}

impl fmt::Display for StatePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            fmt::Display::fmt(parent, f)?;
            if parent.parent.is_some() {
                f.write_str(".")?;
            }
        }
        match self.part {
            Part::Root => Ok(()),
            Part::Name(name) => f.write_str(name),
            Part::Index(index) => write!(f, "{index}"),
        }
    }
}

impl fmt::Debug for StatePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatePath({self})")
    }
}
