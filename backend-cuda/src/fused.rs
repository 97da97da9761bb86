//! Softmax and layer norm in one pass.

/// What it waits for.
pub(crate) const MISSING: &str = "kernels compiled by NVRTC and memory";
