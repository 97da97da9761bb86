//! The proofs behind `cargo xtask golden`, `rules` and `bench`, as a library: the programs only read their arguments.

pub mod golden;

// Linked for its ops and backends; nothing is named.
use sharding_ops as _;
