//! The sim backend from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::expect_used, unreachable_pub)]

mod collective;
mod conformance;
mod memory;
mod million;
mod region;
