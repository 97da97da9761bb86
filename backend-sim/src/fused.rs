//! Fused kernels.

use crate::device::Flops;
use crate::{attention, dot};
use sharding_core::backend::{FusedOp, LocalArray};

/// Steps per element: softmax takes the greatest, subtracts, exponentiates, adds and divides; layer_norm adds for
/// the mean, subtracts, squares, adds for the variance, scales, multiplies and adds; rms_norm squares, adds, scales and
/// multiplies. A linear layer is a matrix product.
pub(crate) fn flops(op: &FusedOp, inputs: &[&LocalArray], output: Option<&LocalArray>) -> Flops {
    let steps = match op {
        FusedOp::Linear => return Flops::products(dot::flops(inputs, output)),
        FusedOp::Softmax { .. } => 5.0,
        FusedOp::LayerNorm { .. } => 7.0,
        FusedOp::RmsNorm { .. } => 4.0,
        FusedOp::Attention(op) => return attention::flops(op, inputs),
        _ => 1.0,
    };
    Flops::others(steps * output.map_or(0, LocalArray::elements) as f64)
}
