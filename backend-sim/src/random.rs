//! Random numbers.

use sharding_core::backend::{Distribution, LocalArray, Random};

/// Philox takes ten rounds of two products, two sums of keys and four differences for four words; a quantile some
/// thirty operations more.
pub(crate) fn flops(random: &Random, output: Option<&LocalArray>) -> f64 {
    let each = match random.distribution {
        Distribution::Bernoulli { .. } => 21.0,
        Distribution::Uniform { .. } => 23.0,
        _ => 53.0,
    };
    each * output.map_or(0, LocalArray::elements) as f64
}
