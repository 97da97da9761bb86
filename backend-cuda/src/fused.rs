//! Softmax and the norms in one pass.

/// What it waits for.
pub(crate) const MISSING: &str = "kernels compiled by NVRTC and memory";
