//! Integration tests of the core, on backends of plain vectors.

mod golden;
mod host;
mod program;
mod reference;
mod transfer;
mod value;
