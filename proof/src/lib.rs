//! The proofs behind `cargo xtask golden`, `rules` and `bench`, as a library: the programs only read their arguments.

#[cfg(feature = "examples")]
pub mod bench;
#[cfg(feature = "examples")]
pub mod comm;
pub mod golden;
mod print;
pub mod rules;

// Linked for its ops and backends, whatever is named of it.
use sharding_ops as _;
