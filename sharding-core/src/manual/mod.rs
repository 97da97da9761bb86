//! Manual regions: a function that runs once per device, and says itself what moves between them.
//!
//! [`shard_map`] gives a function blocks of its arguments on every device, concurrently, and a [`ManualCx`] with the
//! collectives. [`call_on_mesh`] runs one device after the other on the shards as they are, and moves nothing.
//!
//! # The way of a region
//!
//! 1. Wrapping resolves the specs (`spec`) and cuts the mesh along its manual axes (`grid`): a member per addressable
//!    coordinate, with what remains of the mesh for it.
//! 2. A call (`region`) transfers the arguments (`blocks`), takes parked threads (`pool`) and runs the function on each
//!    (`work`); the first member runs on the caller's. Over which axes values may vary is followed on tensors and per thread
//!    (`varies`).
//! 3. A collective (`cx`) makes ready what it can alone (`local`), says what it calls (`call`) and meets its group
//!    (`rendezvous`, by the locks of `sync`). Who is late, gone or of another mind is found by a state machine without
//!    threads (`agreement`). Whoever comes last makes one tensor of all values over the group's devices and redistributes
//!    it (`collective`).
//! 4. Results are compared in shape and placement, checked for what they claim, and put together (`results`).

mod agreement;
mod blocks;
mod call;
mod call_on_mesh;
mod collective;
mod cx;
mod grid;
mod local;
mod over;
mod per_shard;
mod pool;
mod region;
mod rendezvous;
mod replicas;
mod results;
mod shard_map;
mod spec;
mod sync;
mod varies;
mod work;

pub use call_on_mesh::{DeviceCx, OnMesh, call_on_mesh};
pub use cx::ManualCx;
pub use over::Over;
pub use per_shard::PerShard;
pub use pool::threads;
pub use shard_map::{ShardMap, ShardMapBuilder, ShardMapMany, shard_map};
pub(crate) use varies::Varies;
