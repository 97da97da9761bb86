//! What all kernels share: their names in errors, and the error of one that is not there yet.

use sharding_core::backend::{FusedOp, Primitive};
use sharding_core::{Error, ErrorKind};

/// The name of a primitive in errors.
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
        _ => "such a kernel",
    }
}

/// The error of what cannot be done yet.
pub(crate) fn not_yet(what: &str, missing: &str) -> Error {
    Error::new(ErrorKind::Backend, format!("the cuda backend has no {what} yet: it needs {missing}"))
        .with_fix("use a mesh of BackendKind::CPU")
}
