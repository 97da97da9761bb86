//! Row-major values, as the file writes them.

use super::super::json::{Node, Parsed};
use super::super::room;
use sharding_core::{DType, DeviceMapping, Error, ErrorKind, Result, Tensor};
use std::fmt;

/// A shape, and numbers or truth values.
pub(super) struct Value {
    shape: Vec<usize>,
    data: Vec<f64>,
    truths: bool,
}

impl Value {
    pub(super) fn read(node: &Node<'_>) -> Parsed<Self> {
        let data = node.field("data")?;
        let truths = data.list()?.first().is_some_and(|first| first.value().is_boolean());
        let data = data.list_of(|x| if truths { x.truth().map(f64::from) } else { x.number() })?;
        let shape = node.field("shape")?;
        let extents = shape.list_of(Node::size)?;
        room::elements(&shape, &extents)?;
        Ok(Self { shape: extents, data, truths })
    }

    pub(super) fn place(&self, mapping: &DeviceMapping) -> Result<Tensor> {
        if self.truths {
            let values: Vec<bool> = self.data.iter().map(|x| *x != 0.0).collect();
            return Tensor::from_slice(&values, self.shape.as_slice(), mapping);
        }
        let values: Vec<f32> = self.data.iter().map(|x| *x as f32).collect();
        Tensor::from_slice(&values, self.shape.as_slice(), mapping)
    }

    /// All of a tensor.
    pub(super) fn of(x: &Tensor) -> Result<Self> {
        let data = match x.dtype() {
            DType::F32 => x.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
            DType::I32 => x.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
            DType::Bool => x.to_vec::<bool>()?.into_iter().map(f64::from).collect(),
            other => return Err(unknown(other)),
        };
        Ok(Self { shape: x.shape().to_vec(), data, truths: false })
    }

    /// One shard.
    pub(super) fn of_shard(x: &Tensor, position: usize) -> Result<Self> {
        let data = match x.dtype() {
            DType::F32 => x.shard_to_vec::<f32>(position)?.into_iter().map(f64::from).collect(),
            DType::I32 => x.shard_to_vec::<i32>(position)?.into_iter().map(f64::from).collect(),
            DType::Bool => x.shard_to_vec::<bool>(position)?.into_iter().map(f64::from).collect(),
            other => return Err(unknown(other)),
        };
        Ok(Self { shape: x.layout().local_shape(position).to_vec(), data, truths: false })
    }
}

fn unknown(dtype: DType) -> Error {
    Error::new(ErrorKind::DType, format!("no case has values of {dtype}"))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.shape, self.data)
    }
}
