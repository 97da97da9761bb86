//! Attention.

use sharding_core::backend::{Attention, LocalArray, LocalMeta};
use smallvec::SmallVec;

/// Two products for each score, and for its softmax 5 steps: the greatest is taken and subtracted, then exponentiate,
/// add and divide. Causal attention counts half of them.
pub(crate) fn flops(op: &Attention, inputs: &[&LocalArray]) -> f64 {
    let metas: SmallVec<[&LocalMeta; 4]> = inputs.iter().map(|x| x.meta()).collect();
    let Some(extents) = op.extents(&metas) else { return 0.0 };
    let score = 2 * (extents.width + extents.value_width) + 5;
    let seen = if op.causal.is_some() { 0.5 } else { 1.0 };
    extents.scores().elements() as f64 * score as f64 * seen
}
