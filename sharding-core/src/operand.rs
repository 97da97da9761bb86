//! Operands of a call: tensors, numbers, slices of tensors, buffers.

use crate::{Scalar, Tensor, TensorBuffer};

/// What is passed for one declared operand.
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number; it takes the dtype of the tensors beside it.
    Scalar(Scalar),
    /// The tensors of a slice operand.
    Many(&'a [Tensor]),
    /// An optional tensor.
    Optional(Option<&'a Tensor>),
    /// A buffer that the op writes.
    Written(&'a mut TensorBuffer),
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Operand::Tensor(tensor)
    }
}
impl<'a> From<&'a [Tensor]> for Operand<'a> {
    fn from(tensors: &'a [Tensor]) -> Self {
        Operand::Many(tensors)
    }
}
impl<'a> From<Option<&'a Tensor>> for Operand<'a> {
    fn from(tensor: Option<&'a Tensor>) -> Self {
        Operand::Optional(tensor)
    }
}
impl<'a> From<&'a mut TensorBuffer> for Operand<'a> {
    fn from(buffer: &'a mut TensorBuffer) -> Self {
        Operand::Written(buffer)
    }
}

macro_rules! number_operand {
    ($($type:ty),*) => {$(
        impl From<$type> for Operand<'_> {
            fn from(value: $type) -> Self { Operand::Scalar(value.into()) }
        }
    )*};
}
number_operand!(f32, f64, i32, i64, bool);
