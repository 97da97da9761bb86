//! Layers: plain structs of tensors, each with the placements of its weights, that communicate what their parallel style
//! needs and nothing else.
//!
//! A layer is made from tensors, as a struct, or loaded by dotted names from any [`NamedTensors`] (a weight file, a map) with
//! a [`Parallel`] that says along which mesh axis weights are split. Weights of linear layers are `[out, in]`, as PyTorch
//! stores them; none is transposed by a copy.
//!
//! The pair that tensor parallelism is made of (Shoeybi et al., Megatron-LM, 2019): a column-parallel layer gives each
//! device its own outputs, a row-parallel layer takes them up, and one all_reduce brings the sum together.
//!
//! ```
//! use sharding_ops::nn::{Linear, LinearSplit, Parallel};
//! use sharding_ops::*;
//! use std::collections::HashMap;
//!
//! let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
//! let whole = DeviceMapping::replicated(&mesh);
//! let weights = HashMap::from([
//!     ("up.weight".to_owned(), Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2], &whole)?),
//!     ("up.bias".to_owned(), Tensor::from_slice(&[0.5_f32; 3], [3], &whole)?),
//!     ("down.weight".to_owned(), Tensor::from_slice(&[1.0_f32; 3], [1, 3], &whole)?),
//!     ("down.bias".to_owned(), Tensor::from_slice(&[0.25_f32], [1], &whole)?),
//! ]);
//! let tp = Parallel::along(&mesh, "tp")?;
//! let up = Linear::load(&weights, "up", &tp, LinearSplit::Column)?;
//! let down = Linear::load(&weights, "down", &tp, LinearSplit::Row)?;
//!
//! let x = Tensor::from_slice(&[1.0_f32, 1.0], [1, 2], &whole)?;
//! let wide = up.forward(&x)?; // nothing moves
//! assert_eq!(wide.layout().places(), [Sharded(1)]);
//! let y = down.forward(&wide)?; // one all_reduce
//! assert_eq!(y.layout().places(), [Replicated]);
//! assert_eq!(y.to_vec::<f32>()?, [22.75]);
//! # Ok::<(), sharding_ops::Error>(())
//! ```

mod attention;
mod embedding;
mod layer_norm;
mod linear;
mod mlp;
mod parallel;
mod rms_norm;

pub use attention::{Attention, Heads};
pub use embedding::{Embedding, TableSplit};
pub use layer_norm::LayerNorm;
pub use linear::{Linear, LinearSplit};
pub use mlp::{Activation, Mlp};
pub use parallel::Parallel;
pub use rms_norm::RmsNorm;
pub use sharding_core::NamedTensors;
