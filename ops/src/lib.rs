//! Eager sharded tensors: a tensor that lives on a mesh of devices, and ops that know how they may be split.
//!
//! You say where each operand lies. Every op picks the cheapest allowed way to run, moves what must move, runs a local
//! kernel on every device, and can say what it did. No graph, no compiler: one op at a time, decided from layouts.
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | [device mesh](DeviceMesh), mesh axis | an N-dimensional grid of devices; one named dimension of it |
//! | tensor axis | a dimension of a tensor |
//! | [device](Device) | one accelerator, or CPU slot |
//! | shard, local array | the piece of a tensor that one device holds |
//! | [placement](Place) | what one mesh axis does to a tensor: [`Replicated`], [`Sharded`] on a tensor axis, [`Partial`] (a term of a sum, say), [`Unknown`], or your own |
//! | [mapping](DeviceMapping) | a mesh and one placement per mesh axis |
//! | [layout](TensorLayout) | dtype, global shape and mapping |
//! | row | on one mesh axis: a placement for every operand and every result of an op |
//! | rule | from layouts to rows; what [`sharding_rule`] declares |
//! | plan | the row chosen on every mesh axis, with its cost |
//! | redistribute, reshard | change placements; a reshard is a redistribution that an op's plan inserted |
//!
//! # Example
//!
//! ```
//! use sharding_ops::*;
//!
//! // Two devices, simulated on one CPU.
//! let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
//! let columns = DeviceMapping::new(&mesh, [Sharded(1)])?;
//! let rows = DeviceMapping::new(&mesh, [Sharded(0)])?;
//! let a = full([4, 8], 1.0, DType::F32, &columns)?;
//! let b = full([8, 2], 1.0, DType::F32, &rows)?;
//!
//! // Each device multiplies what it holds: the product is the sum of what the two have.
//! let product = a.matmul(&b)?;
//! assert_eq!(product.layout().places(), [Partial(ReduceOp::Sum)]);
//!
//! // relu of a sum is not the sum of relus: the parts are added first, and a policy may refuse that.
//! assert!(auto_reshard(Policy::raise(), || product.relu()).is_err());
//! let y = product.relu()?;
//! assert_eq!(y.layout().places(), [Replicated]);
//! assert_eq!(y.to_vec::<f32>()?, [8.0; 8]);
//! # Ok::<(), sharding_ops::Error>(())
//! ```
//!
//! Ops are functions, methods ([`TensorOps`]) and, for arithmetic, operators: `(&a + &b)?`. All return [`Result`], and none
//! panics on bad input. An op of your own takes about ten lines: see [`sharding_rule`].
//!
//! # Features
//!
//! `cpu` (default), `cuda` and `sim` link the backend of that kind of device; `ndarray` (default) takes and gives host arrays of
//! that crate; `testing` adds the checks of rules and
//! backends, `check_rule!` among them.

#![deny(clippy::missing_errors_doc)]

#[cfg(test)]
mod ask;
mod backends;
mod check;
mod collective;
mod elementwise;
mod exchanged;
mod expr;
mod host;
mod index;
mod joined;
mod leaf;
mod made;
mod mesh_axes;
mod method;
pub mod nn;

mod op;
mod operator;
mod random;
mod reduction;
mod row;
mod split_sizes;
mod staged;

pub use host::{HostSource, from_process_local_data, place_host_array};
#[cfg(feature = "ndarray")]
pub use host::{ToNdarray, shard_view};
pub use index::Index;
pub use leaf::LeafOps;
pub use mesh_axes::MeshAxes;
pub use method::TensorOps;
pub use op::abs::abs;
pub use op::add::add;
pub use op::all_gather::all_gather;
pub use op::all_reduce::all_reduce;
pub use op::arange::arange;
pub use op::bernoulli::bernoulli;
pub use op::broadcast_to::broadcast_to;
pub use op::buffer_store::buffer_store;
pub use op::buffer_store_slice::buffer_store_slice;
pub use op::cast::cast;
pub use op::chunk::chunk;
pub use op::clamp::clamp;
pub use op::concat::concat;
pub use op::div::div;
pub use op::embedding::embedding;
pub use op::eq::eq;
pub use op::erf::erf;
pub use op::exp::exp;
pub use op::flatten::flatten;
pub use op::flip::flip;
pub use op::full::full;
pub use op::full_like::full_like;
pub use op::gather::gather;
pub use op::ge::ge;
pub use op::gelu::gelu;
pub use op::gelu_tanh::gelu_tanh;
pub use op::gt::gt;
pub use op::layer_norm::layer_norm;
pub use op::le::le;
pub use op::linear::linear;
pub use op::log::log;
pub use op::logical_and::logical_and;
pub use op::logical_not::logical_not;
pub use op::logical_or::logical_or;
pub use op::logical_xor::logical_xor;
pub use op::lt::lt;
pub use op::matmul::matmul;
pub use op::max::max;
pub use op::maximum::maximum;
pub use op::mean::mean;
pub use op::min::min;
pub use op::minimum::minimum;
pub use op::mul::mul;
pub use op::ne::ne;
pub use op::neg::neg;
pub use op::normal::normal;
pub use op::ones::ones;
pub use op::pad::pad;
pub use op::permute::permute;
pub use op::pow::pow;
pub use op::prod::prod;
pub use op::rebind_mapping::rebind_mapping;
pub use op::reduce_scatter::reduce_scatter;
pub use op::relu::relu;
pub use op::repeat::repeat;
pub use op::reshape::reshape;
pub use op::rms_norm::rms_norm;
pub use op::roll::roll;
pub use op::rsqrt::rsqrt;
pub use op::scaled_dot_product_attention::scaled_dot_product_attention;
pub use op::sigmoid::sigmoid;
pub use op::silu::silu;
pub use op::slice::slice;
pub use op::softmax::softmax;
pub use op::split::split;
pub use op::sqrt::sqrt;
pub use op::squeeze::squeeze;
pub use op::stack::stack;
pub use op::sub::sub;
pub use op::sum::sum;
pub use op::tanh::tanh;
pub use op::tile::tile;
pub use op::transfer_to::transfer_to;
pub use op::transpose::transpose;
pub use op::uniform::uniform;
pub use op::unsqueeze::unsqueeze;
pub use op::where_::r#where as where_;
pub use op::zeros::zeros;
pub use op::zeros_like::zeros_like;
pub use split_sizes::SplitSizes;

#[doc(no_inline)]
pub use sharding_core::Place::{Partial, Replicated, Sharded, Unknown};
#[doc(no_inline)]
pub use sharding_core::manual::{
    DeviceCx, ManualCx, OnMesh, Over, PerShard, ShardMap, ShardMapBuilder, ShardMapMany, call_on_mesh,
    shard_map,
};
#[doc(no_inline)]
pub use sharding_core::{
    AbstractMesh, AxisType, BackendKind, BufferLayout, Call, ConversionError, DType, Device, DeviceMapping,
    DeviceMesh, Element, Error, ErrorKind, GspmdSharding, HostCopy, HostData, KernelCx, LocalDataOptions,
    MemoryKind, Mode, NamedMapping, NamedSharding, Operand, PartitionSpec, Place, Placement, PmapSharding,
    Policy, PositionalSharding, Recorder, ReduceOp, ReplicaPolicy, Result, Scalar, Scope, Shape, Shard,
    Sharding, ShardingError, Shards, SingleDeviceSharding, SpecEntry, StageCx, Target, Tensor, TensorBuffer,
    TensorLayout, TensorMeta, Transfer, assert_comm, auto_reshard, auto_reshard_guard,
    backend::{BinaryOp, Expr, LocalArray, MemoryUse, StepKind, UnaryOp},
    half, kernel, layout, make_mesh,
    op::{CaseOperand, Cases, Fill, Op},
    placement::{Interleaved, Ragged, TransitionKind, TransitionSet},
    plan::{CostModel, CostUnit, VolumeCost},
    redistribute::{Explanation, explain_transfer},
    rule::{Rows, RuleCx},
    set_mesh, set_mesh_guard, sharding, sharding_rule, spec,
    trace::{CommReport, CommStep, Explained, TraceFile, explain, trace_to_file},
    visualize::{Picture, Visualize, visualize},
};
#[doc(no_inline)]
pub use sharding_core::{
    NamedTensors, RandomKey, ShardedState, state,
    state::{StateTensors, abstract_sharded_state, eager_sharded_init, sharded_load, state_shardings},
};
#[cfg(feature = "testing")]
pub use sharding_core::{check_rule, conformance};

/// What generated code names; not for people.
#[doc(hidden)]
pub use sharding_core::__private;

/// Pages of the repository: their Rust blocks are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/design-faq.md")]
    struct DesignFaq;
    #[doc = include_str!("../../docs/manual.md")]
    struct Manual;
    #[doc = include_str!("../../docs/encoder.md")]
    struct Encoder;
    #[cfg(feature = "ndarray")]
    #[doc = include_str!("../../docs/from-jax.md")]
    struct FromJax;
    #[doc = include_str!("../../docs/state.md")]
    struct State;
}
