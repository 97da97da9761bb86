//! Attention over blocks of keys.

/// What it waits for.
pub(crate) const MISSING: &str = "kernels compiled by NVRTC and memory";
