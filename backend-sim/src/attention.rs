//! Attention.

use crate::device::Flops;
use sharding_core::backend::{Attention, LocalArray, LocalMeta};
use smallvec::SmallVec;

/// Two products for each score, and for its softmax 5 steps: the greatest is taken and subtracted, then exponentiate,
/// add and divide. Causal attention counts half of them.
pub(crate) fn flops(op: &Attention, inputs: &[&LocalArray]) -> Flops {
    let metas: SmallVec<[&LocalMeta; 4]> = inputs.iter().map(|x| x.meta()).collect();
    let Some(extents) = op.extents(&metas) else { return Flops::others(0.0) };
    let seen = if op.causal.is_some() { 0.5 } else { 1.0 };
    let scores = extents.scores().elements() as f64 * seen;
    Flops { products: scores * 2.0 * (extents.width + extents.value_width) as f64, others: scores * 5.0 }
}
