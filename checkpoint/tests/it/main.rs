//! Weight files on disk, read onto meshes.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod damaged;
mod memory;
mod read;
mod scratch;
mod view;
