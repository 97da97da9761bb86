//! Integration tests of the core, on backends of plain vectors.

// The lints know test functions, but not the helpers between them: all of this crate is tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod dtensor;
mod exchange;
mod golden;
mod host;
mod memory;
mod mesh;
mod oracle;
mod process;
mod program;
mod reference;
mod transfer;
mod tree;
mod value;
