//! Picking a row on every mesh axis.

use super::{CostModel, Policy};
use crate::mapping::Places;
use crate::op::ErasedRows;
use crate::op::{Groups, OpArgs, OpDef};
use crate::rule::{AxisAssignment, RuleOperand};
use crate::{DeviceMesh, Result, TensorMeta};
use smallvec::SmallVec;

/// A call to be planned. All operands' meshes agree already; `operands` hold the placements as they are.
pub struct PlanRequest<'a> {
    /// The op.
    pub def: &'static OpDef,
    /// Its rule: the registered one, or what the scope replaces it by.
    pub rows: ErasedRows,
    /// The plain arguments.
    pub args: &'a dyn OpArgs,
    /// The op's mesh.
    pub mesh: &'a DeviceMesh,
    /// The operands, flat.
    pub operands: &'a [RuleOperand],
    /// Their grouping.
    pub groups: Groups<'a>,
    /// dtype and global shape of every result.
    pub results: &'a [TensorMeta],
    /// The policy in force.
    pub policy: Policy,
    /// The cost model in force.
    pub cost: &'a dyn CostModel,
    /// Where the op was called.
    pub at: &'static std::panic::Location<'static>,
}

/// The chosen rows.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The row of every mesh axis.
    pub rows: SmallVec<[AxisAssignment; 2]>,
    /// The placements that every operand must have.
    pub operands: SmallVec<[Places; 4]>,
    /// The placements of every result.
    pub results: SmallVec<[Places; 2]>,
    /// The operands that move.
    pub moved: SmallVec<[usize; 4]>,
    /// The score: the sum over mesh axes of the chosen rows' costs.
    pub cost: f64,
}

/// Picks the cheapest allowed row on every mesh axis, in order.
///
/// # Errors
/// [`ErrorKind::Sharding`](crate::ErrorKind::Sharding) with the report, if no row is feasible or the policy forbids
/// what has to move; what the rule says, if it refuses.
pub fn plan(request: &PlanRequest<'_>) -> Result<Plan> {
    let _ = request;
    todo!()
}
