//! Matrix products.

use sharding_core::backend::LocalArray;

/// A multiplication and an addition for each element of the result and each step of the inner axis.
pub(crate) fn flops(inputs: &[&LocalArray], output: Option<&LocalArray>) -> f64 {
    let inner = inputs.first().and_then(|x| x.shape().last()).copied().unwrap_or(0);
    2.0 * inner as f64 * output.map_or(0, LocalArray::elements) as f64
}
