//! Elementwise expressions.

/// What it waits for.
pub(crate) const MISSING: &str = "kernels compiled by NVRTC, one per expression, and memory";
