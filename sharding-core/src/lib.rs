//! Everything of eager sharded tensors but kernels: words, shardings, rules, planner, redistribution, tensors, and the
//! contract that backends fulfil. Users take it through `sharding_ops`, which adds the ops and links the backends.
//!
//! # Words
//!
//! | word | meaning | type |
//! |---|---|---|
//! | device mesh, mesh axis | an N-dimensional grid of devices; one named dimension of it | [`DeviceMesh`] |
//! | tensor axis | a dimension of a tensor | |
//! | device | one accelerator, or CPU slot | [`Device`] |
//! | shard, local array | the piece of a tensor that one device holds | [`backend::LocalArray`] |
//! | placement | what one mesh axis does to a tensor | [`Place`], [`Placement`] |
//! | mapping | a mesh and one placement per mesh axis, or the same by names | [`DeviceMapping`], [`NamedMapping`] |
//! | layout | dtype, global shape and mapping | [`TensorLayout`], [`BufferLayout`] |
//! | row | on one mesh axis: a placement for every operand and every result | [`rule::AxisAssignment`] |
//! | rule | from layouts (and plain arguments) to rows | [`sharding_rule`] |
//! | plan | the row chosen on every mesh axis, with its cost | [`plan::Plan`] |
//! | redistribute | change a tensor's placements | [`redistribute::Program`] |
//! | primitive | one of the closed set of kernels that a backend provides | [`backend::Primitive`] |
//!
//! # Example
//!
//! Layouts and redistributions need no backend and no data:
//!
//! ```
//! use sharding_core::plan::VolumeCost;
//! use sharding_core::redistribute::Program;
//! use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, TensorLayout};
//!
//! let mesh = DeviceMesh::simulated(BackendKind::SIM, [1024, 1024], ["dp", "tp"])?;
//! let on = |places| TensorLayout::new(DType::F32, [4096, 8192], DeviceMapping::new(&mesh, places)?);
//!
//! // Split by rows over both mesh axes: one balanced split over a million devices.
//! let rows = on([Place::Sharded(0), Place::Sharded(0)])?;
//! assert_eq!(&rows.local_shape(0)[..], [1, 8192]);
//!
//! // To rows over dp and columns over tp: one exchange along tp, and no whole copy anywhere.
//! let blocks = on([Place::Sharded(0), Place::Sharded(1)])?;
//! let program = Program::search(&rows, &blocks, &VolumeCost)?;
//! assert_eq!(program.steps.len(), 1);
//! assert_eq!(program.steps[0].kind.name(), "all_to_all");
//! # Ok::<(), sharding_core::Error>(())
//! ```

#![deny(clippy::missing_errors_doc)]
pub mod backend;
mod buffer;
#[cfg(feature = "testing")]
pub mod conformance;
mod device;
mod dims;
mod dispatch;
mod dtype;
mod error;
mod kernel;
mod layout;
pub mod manual;
mod mapping;
mod memory;
mod mesh;
pub mod op;
mod operand;
mod operator;
pub mod placement;
pub mod plan;
mod process;
mod record;
pub mod redistribute;
pub mod rule;
mod scope;
mod shape;
pub mod sharding;
mod spec;
pub mod split;
mod stage;
pub mod state;
mod target;
mod tensor;
mod text;
pub mod trace;
pub mod visualize;
pub use backend::RandomKey;
pub use buffer::TensorBuffer;
pub use device::{BackendKind, Device};
pub use dims::{GlobalDim, global_dims};
pub use dispatch::{Caller, caller, clear_plan_cache, dispatch, dispatch_dyn, making, plan_call};
pub use dtype::{DType, Element, Scalar};
pub use error::{ConversionError, Error, ErrorKind, Result, ShardingError};
pub use kernel::KernelCx;
pub use layout::{BufferLayout, TensorLayout};
pub use mapping::{DeviceMapping, Places, Region};
pub use mesh::{AbstractMesh, AxisType, DeviceMesh, MAX_MESH_AXES, make_mesh};
pub use operand::Operand;
pub use operator::{Operator, OperatorDef};
pub use placement::{Place, Placement, ReduceOp};
pub use plan::{Mode, Policy};
pub use process::{HostCopy, HostData, LocalDataOptions, ReplicaPolicy, Shard};
pub use record::{Call, Recorder, Transfer};
pub use scope::{Scope, ScopeGuard, auto_reshard, auto_reshard_guard, set_mesh, set_mesh_guard};
pub use shape::{MAX_TENSOR_AXES, Metas, Shape, TensorMeta, broadcast};
pub use sharding::{
    GspmdSharding, MemoryKind, NamedSharding, PmapSharding, PositionalSharding, Sharding,
    SingleDeviceSharding, layout,
};
pub use sharding_macros::{ShardedState, kernel, sharding_rule};
pub use spec::{NamedMapping, PartitionSpec, SpecEntry};
pub use stage::{Shards, StageCx};
pub use state::{NamedTensors, ShardedState};
pub use target::Target;
pub use tensor::{Results, Tensor};

/// The crate of [`f16`](half::f16) and [`bf16`](half::bf16), the elements of [`DType::F16`] and [`DType::BF16`].
pub use half;

/// What generated code names; not for people.
#[doc(hidden)]
pub mod __private {
    pub use crate::backend::{LocalArray, LocalArrays};
    pub use crate::op::*;
    pub use crate::rule::*;
    pub use crate::*;
    pub use inventory;
    pub use smallvec::{SmallVec, smallvec};
}
