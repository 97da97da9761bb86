//! Weight files read onto a device mesh: every device gets its own piece, and nobody reads or holds the whole.
//!
//! A [`WeightFile`] is an open safetensors file whose header was checked against its length. A tensor is read by name
//! under a mapping, by positional reads of the ranges that the devices of this process hold:
//!
//! ```
//! use sharding_checkpoint::WeightFile;
//! use sharding_ops::{BackendKind, DeviceMapping, DeviceMesh, Sharded};
//!
//! # let path = std::env::temp_dir().join(format!("checkpoint-doc-{}.safetensors", std::process::id()));
//! # let header = r#"{"w": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}}"#;
//! # let data: Vec<u8> = (0..6_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
//! # let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
//! # std::fs::write(&path, bytes).map_err(|error| sharding_ops::Error::new(sharding_ops::ErrorKind::File, error.to_string()))?;
//! let file = WeightFile::open(&path)?;
//! let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
//! let w = file.read("w", &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
//! assert_eq!(w.shard_to_vec::<f32>(0)?, [0.0, 1.0, 2.0, 3.0]);
//! assert_eq!(w.shard_to_vec::<f32>(1)?, [4.0, 5.0]);
//! # let _ = std::fs::remove_file(&path);
//! # Ok::<(), sharding_ops::Error>(())
//! ```
//!
//! What somebody else has read is a view of safetensors, and so is what somebody else is to write: [`host_data`], [`HostView`].
//!
//! It is a source of [`NamedTensors`](sharding_ops::nn::NamedTensors), from which the layers of `sharding_ops::nn` are
//! loaded.

#![deny(clippy::missing_errors_doc)]

mod cast;
mod file;
mod header;
mod ranges;
mod read_at;
mod view;

pub use file::WeightFile;
pub use safetensors::Dtype;
pub use view::{HostView, host_data};
