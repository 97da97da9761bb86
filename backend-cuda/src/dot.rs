//! Matrix products.

/// What it waits for.
pub(crate) const MISSING: &str = "cuBLASLt and memory";
