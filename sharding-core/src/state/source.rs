//! Tensors by dotted name: where states and layers are loaded from.

use super::{ShardedState, StateTensors};
use crate::{DeviceMapping, Error, ErrorKind, Result, Tensor, TensorMeta};
use std::collections::HashMap;

/// Tensors by dotted name (`encoder.layer.0.attention.self.query.weight`): a weight file, a map of tensors, or any
/// [`ShardedState`].
pub trait NamedTensors {
    /// Whether there is a tensor of this name.
    fn contains(&self, name: &str) -> bool;

    /// dtype and global shape of a tensor.
    ///
    /// # Errors
    /// If there is none of this name; the text says where it was looked for.
    fn meta(&self, name: &str) -> Result<TensorMeta>;

    /// A tensor, laid out by `mapping`.
    ///
    /// # Errors
    /// If there is none of this name, or it cannot be read or placed.
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor>;
}

impl NamedTensors for HashMap<String, Tensor> {
    fn contains(&self, name: &str) -> bool {
        self.contains_key(name)
    }
    fn meta(&self, name: &str) -> Result<TensorMeta> {
        find(self, name).map(|tensor| tensor.layout().meta().clone())
    }
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        find(self, name)?.transfer_to(mapping)
    }
}

fn find<'a>(tensors: &'a HashMap<String, Tensor>, name: &str) -> Result<&'a Tensor> {
    tensors.get(name).ok_or_else(|| {
        Error::new(ErrorKind::Argument, format!("there is no tensor '{name}' among {}", tensors.len()))
            .with_fix(format!("tensors.insert(\"{name}\".to_owned(), tensor)"))
    })
}

/// Its own tensors, by their names.
impl<S: ShardedState> NamedTensors for S {
    fn contains(&self, name: &str) -> bool {
        StateTensors::tensor_named(self, name).is_some()
    }
    fn meta(&self, name: &str) -> Result<TensorMeta> {
        own(self, name).map(|tensor| tensor.layout().meta().clone())
    }
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        own(self, name)?.transfer_to(mapping)
    }
}

fn own<'a, S: ShardedState>(state: &'a S, name: &str) -> Result<&'a Tensor> {
    StateTensors::tensor_named(state, name).ok_or_else(|| {
        let tensors = state.tensors();
        let near = tensors
            .iter()
            .map(|(name, _)| name.as_str())
            .find(|known| known.ends_with(name) || name.ends_with(known));
        let known = near.or_else(|| tensors.first().map(|(name, _)| name.as_str()));
        let error = Error::new(
            ErrorKind::Argument,
            format!("there is no tensor '{name}' among {} of the state", tensors.len()),
        );
        match known {
            Some(known) => error.with_fix(format!("ask for one of the names of tensors(), as in '{known}'")),
            None => error.with_fix("use a state that has tensors"),
        }
    })
}

/// A source whose names are others than those it is asked for.
///
/// ```
/// use sharding_core::state::{NamedTensors, Renamed};
/// use std::collections::HashMap;
/// let file = HashMap::new();
/// let weights = Renamed::new(&file, |name: &str| format!("model.{name}"));
/// let error = weights.meta("embed.weight").unwrap_err();
/// assert!(error.to_string().contains("'model.embed.weight'"));
/// ```
pub struct Renamed<'a, F> {
    source: &'a dyn NamedTensors,
    name: F,
}

impl<'a, F: Fn(&str) -> String> Renamed<'a, F> {
    /// The source, and from the name that is asked for to its own.
    pub fn new(source: &'a impl NamedTensors, name: F) -> Self {
        Self { source, name }
    }
}

impl<F: Fn(&str) -> String> NamedTensors for Renamed<'_, F> {
    fn contains(&self, name: &str) -> bool {
        self.source.contains(&(self.name)(name))
    }
    fn meta(&self, name: &str) -> Result<TensorMeta> {
        self.source.meta(&(self.name)(name))
    }
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        self.source.tensor(&(self.name)(name), mapping)
    }
}
