//! Rows by index. Indices have no values here, so none is out of range.

use sharding_core::backend::LocalArray;

/// A gather computes nothing.
pub(crate) const FLOPS: f64 = 0.0;

/// The indices are read, and as much of the table as is written.
pub(crate) fn bytes(inputs: &[&LocalArray], output: Option<&LocalArray>) -> f64 {
    let indices = inputs.get(1).map_or(0, |array| array.bytes());
    indices as f64 + 2.0 * output.map_or(0, LocalArray::bytes) as f64
}
