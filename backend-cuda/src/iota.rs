//! Counting along an axis.

/// What it waits for.
pub(crate) const MISSING: &str = "a kernel compiled by NVRTC and memory";
