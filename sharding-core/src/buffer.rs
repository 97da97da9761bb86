//! Buffers: tensors that may be written through.

use crate::backend::LocalArrays;
use crate::manual::Varies;
use crate::{BufferLayout, Tensor, TensorLayout};
use std::fmt;

/// A tensor that ops may write, by `&mut`: who holds it is the only one who does.
///
/// Snapshots ([`TensorBuffer::to_tensor`]) keep their values: a later write copies the shards that are shared.
///
/// A store that is refused (by shapes, dtypes, layouts or the policy) changes nothing. One that fails while devices are
/// writing leaves every shard there, some of them written: writing in place keeps no copy to go back to. Store the
/// whole again, or keep a snapshot of what must not be lost.
pub struct TensorBuffer {
    layout: BufferLayout,
    tensor: Tensor,
}

impl TensorBuffer {
    /// A buffer that starts with a tensor's values.
    pub fn new(tensor: Tensor) -> Self {
        Self { layout: BufferLayout::new(tensor.layout().clone()), tensor }
    }
    /// Its layout.
    pub fn layout(&self) -> &BufferLayout {
        &self.layout
    }
    /// Its layout as a tensor's.
    pub fn tensor_layout(&self) -> &TensorLayout {
        self.layout.as_tensor()
    }
    /// Its present values; free, and not changed by later writes.
    pub fn to_tensor(&self) -> Tensor {
        self.tensor.clone()
    }
    /// Its present values, to be read here and now.
    pub fn as_tensor(&self) -> &Tensor {
        &self.tensor
    }
    /// The local arrays, to be written and put back by [`TensorBuffer::put`]: so they are shared with nobody who does
    /// not hold a snapshot.
    pub(crate) fn take(&mut self) -> LocalArrays {
        self.tensor.take_shards()
    }
    /// Puts written local arrays back; what was written varies over those axes.
    pub(crate) fn put(&mut self, shards: LocalArrays, varies: Varies) {
        let (layout, positions) = (self.tensor_layout().clone(), self.tensor.positions().clone());
        self.tensor = Tensor::from_parts(layout, positions, shards, varies);
    }
}

impl fmt::Debug for TensorBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorBuffer({})", self.tensor_layout())
    }
}
