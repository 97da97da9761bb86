//! What would need elements: names and bytes of kernels that do not run, and the error of a read.

use sharding_core::backend::{FusedOp, LocalArray, Primitive};
use sharding_core::{Error, ErrorKind};

/// The name under which launches are counted.
pub(crate) fn kernel_name(primitive: &Primitive) -> &'static str {
    match primitive {
        Primitive::Map(_) => "map",
        Primitive::Reduce(_) => "reduce",
        Primitive::Dot => "dot",
        Primitive::Gather(_) => "gather",
        Primitive::Copy(_) => "copy",
        Primitive::Iota(_) => "iota",
        Primitive::Random(_) => "random",
        Primitive::Fused(FusedOp::Softmax { .. }) => "softmax",
        Primitive::Fused(FusedOp::LayerNorm { .. }) => "layer_norm",
        Primitive::Fused(FusedOp::Linear) => "linear",
        Primitive::Fused(FusedOp::RmsNorm { .. }) => "rms_norm",
        Primitive::Fused(FusedOp::Attention(_)) => "attention",
        Primitive::Fused(_) => "fused",
        _ => "other",
    }
}

/// All inputs are read once and all outputs written. What an input repeats is read once: a row that is broadcast has the
/// bytes of its storage.
pub(crate) fn bytes(inputs: &[&LocalArray], outputs: &[LocalArray]) -> f64 {
    let read = |array: &&LocalArray| array.bytes().min(array.storage().bytes()) as f64;
    inputs.iter().map(read).sum::<f64>() + outputs.iter().map(|array| array.bytes() as f64).sum::<f64>()
}

/// The error of a read.
pub(crate) fn no_data(array: &LocalArray) -> Error {
    Error::new(
        ErrorKind::Backend,
        format!(
            "{}{} on {} has no data: the sim backend counts only",
            array.dtype(),
            array.shape(),
            array.device()
        ),
    )
    .with_fix("run the same program on a mesh of BackendKind::CPU to see values")
}
