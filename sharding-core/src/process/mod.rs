//! Data that a process brings itself: every device gets its own piece, and nobody holds the whole.
//!
//! [`HostData`] is an array in host memory, borrowed or owned. [`Tensor::place_host_array`](crate::Tensor::place_host_array)
//! lays one out that is whole, [`Tensor::from_process_local_data`](crate::Tensor::from_process_local_data) what each
//! process has of it, [`Tensor::from_callback`](crate::Tensor::from_callback) asks for the pieces, and
//! [`Tensor::from_single_device_arrays`](crate::Tensor::from_single_device_arrays) takes them where they lie.
//! [`Tensor::addressable_shards`](crate::Tensor::addressable_shards) is the way back.

mod callback;
mod host_data;
mod local_data;
mod place;
mod shard;
mod single_device;

pub use host_data::HostData;
pub use local_data::{LocalDataOptions, ReplicaPolicy};
pub use place::HostCopy;
pub use shard::Shard;
