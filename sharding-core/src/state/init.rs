//! What an initialiser is given.

use super::path::Declared;
use super::{NamedTensors, ShardedState};
use crate::{DeviceMesh, Error, ErrorKind, RandomKey, Result};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;

/// What makes a state `S`: for a derived struct, a struct with a field for each of its fields that is no `skip`; see
/// [`state`](super).
pub type Init<'s, S> = <S as ShardedState>::Init<'s>;

/// A place in a state that is being made: its dotted name, what is declared there, and how tensors are made.
#[derive(Clone)]
pub struct Site<'s> {
    shared: Rc<Shared<'s>>,
    name: Rc<str>,
    declared: Declared,
}

/// What all places of a state share.
pub(super) struct Shared<'s> {
    pub(super) mesh: DeviceMesh,
    pub(super) key: RandomKey,
    pub(super) mode: Mode<'s>,
}

/// Where tensors come from.
#[derive(Clone, Copy)]
pub(super) enum Mode<'s> {
    /// The initialiser's makers.
    Eager,
    /// Nowhere: they have layouts and no shards.
    Abstract,
    /// A source, by their names.
    Load(&'s dyn NamedTensors),
}

impl<'s> Site<'s> {
    pub(super) fn root(mesh: DeviceMesh, key: RandomKey, mode: Mode<'s>) -> Self {
        Self { shared: Rc::new(Shared { mesh, key, mode }), name: "".into(), declared: Declared::new() }
    }
    pub(super) fn shared(&self) -> &Shared<'s> {
        &self.shared
    }

    fn below(&self, part: &str, declared: Declared) -> Self {
        let name = if self.name.is_empty() { part.into() } else { format!("{}.{part}", self.name).into() };
        Self { shared: self.shared.clone(), name, declared }
    }
    /// A field of this place.
    #[must_use]
    pub fn field(&self, name: &str, declared: Declared) -> Self {
        self.below(name, declared)
    }
    /// An element of this place.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.below(&index.to_string(), self.declared.clone())
    }
    /// An entry of this place by its key.
    #[must_use]
    pub fn entry(&self, key: &str) -> Self {
        self.below(key, self.declared.clone())
    }

    /// The dotted name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// What is declared here.
    pub fn declared(&self) -> &Declared {
        &self.declared
    }
}

/// What makes the elements of a vector or an array.
pub struct Many<'s, T> {
    at: Site<'s>,
    of: PhantomData<fn() -> T>,
}

impl<'s, T: ShardedState> Many<'s, T> {
    /// For a place; for implementations of [`ShardedState`].
    pub fn new(at: &Site<'s>) -> Self {
        Self { at: at.clone(), of: PhantomData }
    }
    /// What makes the element at an index.
    pub fn at(&self, index: usize) -> Init<'s, T> {
        T::init_at(&self.at.index(index))
    }
    /// A vector of `len` elements.
    ///
    /// # Errors
    /// What `make` says.
    pub fn each(&self, len: usize, mut make: impl FnMut(&Init<'s, T>, usize) -> Result<T>) -> Result<Vec<T>> {
        (0..len).map(|index| make(&self.at(index), index)).collect()
    }
    /// An array.
    ///
    /// # Errors
    /// What `make` says, of the first element with an error; those after it are not made.
    pub fn array<const N: usize>(
        &self,
        mut make: impl FnMut(&Init<'s, T>, usize) -> Result<T>,
    ) -> Result<[T; N]> {
        // Through a vector: a function for arrays of results is not stable yet.
        let made: Result<Vec<T>> = (0..N).map(|index| make(&self.at(index), index)).collect();
        made?.try_into().map_err(|_| Error::new(ErrorKind::Internal, "an array of another length was made"))
    }
}

/// What makes the entries of a map.
pub struct ByName<'s, T> {
    at: Site<'s>,
    of: PhantomData<fn() -> T>,
}

impl<'s, T: ShardedState> ByName<'s, T> {
    /// For a place; for implementations of [`ShardedState`].
    pub fn new(at: &Site<'s>) -> Self {
        Self { at: at.clone(), of: PhantomData }
    }
    /// What makes the entry of a key.
    pub fn entry(&self, key: &str) -> Init<'s, T> {
        T::init_at(&self.at.entry(key))
    }
    /// A map with an entry for each key.
    ///
    /// # Errors
    /// What `make` says.
    pub fn each<K: Into<String>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut make: impl FnMut(&Init<'s, T>, &str) -> Result<T>,
    ) -> Result<BTreeMap<String, T>> {
        let one = |key: K| {
            let key = key.into();
            let made = make(&self.entry(&key), &key)?;
            Ok((key, made))
        };
        keys.into_iter().map(one).collect()
    }
}
