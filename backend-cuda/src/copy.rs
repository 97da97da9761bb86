//! Copies and index maps.

/// What it waits for.
pub(crate) const MISSING: &str = "a copy kernel and memory";
