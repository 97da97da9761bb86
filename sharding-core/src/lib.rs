//! Core.
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
mod mapping;
mod mesh;
pub mod op;
mod operand;
mod operator;
pub mod placement;
pub mod plan;
mod record;
pub mod redistribute;
pub mod rule;
mod scope;
mod shape;
mod spec;
pub mod split;
mod stage;
mod tensor;
pub use buffer::TensorBuffer;
pub use device::{BackendKind, Device};
pub use dims::{GlobalDim, global_dims};
pub use dispatch::{clear_plan_cache, dispatch, dispatch_dyn, plan_call};
pub use dtype::{DType, Element, Scalar};
pub use error::{ConversionError, Error, ErrorKind, Result, ShardingError};
pub use kernel::KernelCx;
pub use layout::{BufferLayout, TensorLayout};
pub use mapping::{DeviceMapping, MemoryKind, Places, Region};
pub use mesh::{AbstractMesh, AxisType, DeviceMesh, MAX_MESH_AXES};
pub use operand::Operand;
pub use operator::{Operator, OperatorDef};
pub use placement::{Place, Placement, ReduceOp};
pub use plan::{Mode, Policy};
pub use record::{Call, Recorder};
pub use scope::{Scope, ScopeGuard, auto_reshard, auto_reshard_guard};
pub use shape::{MAX_TENSOR_AXES, Metas, Shape, TensorMeta, broadcast};
pub use sharding_macros::{kernel, sharding_rule};
pub use spec::{NamedMapping, PartitionSpec, SpecEntry};
pub use stage::{Shards, StageCx};
pub use tensor::{Results, Tensor};

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
