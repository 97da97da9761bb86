//! Where layers get their tensors.

use sharding_core::{DeviceMapping, Error, ErrorKind, Result, Tensor, TensorMeta};
use std::collections::HashMap;

/// Tensors by dotted name (`encoder.layer.0.attention.self.query.weight`): a weight file, or a map of tensors.
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
