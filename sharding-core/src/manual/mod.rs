//! Manual regions: a function that runs once per device, and says itself what moves between them.
//!
//! [`shard_map`] gives a function blocks of its arguments on every device, concurrently, and a [`ManualCx`] with the
//! collectives.

mod agreement;
mod call;
mod collective;
mod cx;
mod grid;
mod local;
mod over;
mod pool;
mod region;
mod rendezvous;
mod shard_map;
mod spec;
mod varies;

pub use cx::ManualCx;
pub use over::Over;
pub use pool::threads;
pub use shard_map::{ShardMap, ShardMapBuilder, ShardMapMany, shard_map};
pub(crate) use varies::Varies;
