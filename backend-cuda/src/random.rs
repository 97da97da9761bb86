//! Random numbers.

/// What it waits for.
pub(crate) const MISSING: &str = "a kernel compiled by NVRTC and memory";
