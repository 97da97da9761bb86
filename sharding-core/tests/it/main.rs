//! Integration tests of the core, on backends of plain vectors.

mod host;
mod program;
mod reference;
mod transfer;
mod value;
