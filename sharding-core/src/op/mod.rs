//! Ops: what `#[sharding_rule]` declares and registers.

mod args;
mod case;
mod def;
mod glue;
mod groups;
mod registry;

pub use args::{KeyWriter, OpArgs, PlanKey};
pub use case::{Case, CaseOperand, Cases, Fill};
pub use def::{
    ErasedKernel, ErasedRows, ErasedShape, ErasedStages, KernelDef, Op, OpDef, OperandDef, OperandKind,
    operand_name, typed,
};
pub use glue::{IntoMetas, IntoShards, no_portable_kernel, no_stages, not_compiled, written};
pub use groups::{Grouped, Groups};
pub use registry::Registry;
