//! Shardings spelled by mesh-axis names: [`PartitionSpec`] and [`NamedMapping`].
//!
//! A spec has one entry per tensor axis, each naming the mesh axes that split it. It knows no mesh. A [`NamedMapping`]
//! is a spec resolved on a mesh; it keeps the spec, so that it can be resolved again on another mesh.

mod convert;
mod entry;
mod named;
mod parse;
mod partition;

pub use entry::SpecEntry;
pub use named::NamedMapping;
pub use partition::PartitionSpec;
