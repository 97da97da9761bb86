//! The sim backend from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::expect_used)]

mod collective;
mod memory;
mod million;
