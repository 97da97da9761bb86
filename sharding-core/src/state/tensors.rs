//! The tensors of a state, one after the other.

use super::{ShardedState, StatePath};
use crate::{Result, Tensor};

/// The tensors of any [`ShardedState`], by dotted name and in the order of declaration.
///
/// ```
/// use sharding_core::state::StateTensors;
/// use sharding_core::{Result, Tensor};
/// use std::collections::BTreeMap;
///
/// /// A step of gradient descent, on any state whose gradients are another of the same form.
/// fn step(model: &mut BTreeMap<String, Tensor>, gradients: &BTreeMap<String, Tensor>) -> Result<()> {
///     for ((_, parameter), (_, gradient)) in model.tensors_mut().into_iter().zip(gradients.tensors()) {
///         *parameter = (&*parameter - gradient)?;
///     }
///     Ok(())
/// }
/// assert!(step(&mut BTreeMap::new(), &BTreeMap::new()).is_ok());
/// ```
pub trait StateTensors: ShardedState {
    /// All tensors with their names.
    fn tensors(&self) -> Vec<(String, &Tensor)>;

    /// All tensors with their names, to be replaced. What replaces one may lie elsewhere, and be of another shape.
    fn tensors_mut(&mut self) -> Vec<(String, &mut Tensor)>;

    /// The tensor of a name.
    fn tensor_named(&self, name: &str) -> Option<&Tensor>;

    /// The same state with other tensors; what is skipped is cloned.
    ///
    /// # Errors
    /// What `make` says, of the first tensor with an error.
    fn map_tensors(&self, make: impl FnMut(&str, &Tensor) -> Result<Tensor>) -> Result<Self>
    where
        Self: Clone;
}

impl<S: ShardedState> StateTensors for S {
    fn tensors(&self) -> Vec<(String, &Tensor)> {
        let mut all = Vec::new();
        self.visit(&StatePath::root(), &mut |at, tensor| all.push((at.name(), tensor)));
        all
    }
    fn tensors_mut(&mut self) -> Vec<(String, &mut Tensor)> {
        let mut all = Vec::new();
        self.visit_mut(&StatePath::root(), &mut |at, tensor| all.push((at.name(), tensor)));
        all
    }
    fn tensor_named(&self, name: &str) -> Option<&Tensor> {
        let mut found = None;
        self.visit(&StatePath::root(), &mut |at, tensor| {
            if found.is_none() && at.name() == name {
                found = Some(tensor);
            }
        });
        found
    }
    fn map_tensors(&self, mut make: impl FnMut(&str, &Tensor) -> Result<Tensor>) -> Result<Self>
    where
        Self: Clone,
    {
        let mut mapped = self.clone();
        for (name, tensor) in mapped.tensors_mut() {
            *tensor = make(&name, tensor)?;
        }
        Ok(mapped)
    }
}
