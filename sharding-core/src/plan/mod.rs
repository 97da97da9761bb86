//! The planner: which row an op runs on each mesh axis, and what moves for it.

mod alpha_beta;
mod cache;
mod call;
mod cost;
mod feasible;
mod generations;
mod in_place;
mod joint;
mod pick;
mod policy;
mod report;
pub mod roofline;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub use alpha_beta::{Algorithm, AlphaBetaCost, Link, calibrate, fabric};
pub(crate) use cache::{Key, KeyOperand, PlanCache};
pub use call::CallPlan;
pub use cost::{CostModel, CostUnit, StepQuery, VolumeCost};
pub(crate) use generations::Generations;
pub use pick::{Plan, PlanRequest, plan};
pub use policy::{Mode, PlannerKind, Policy};
pub use report::{Report, trace};
pub use roofline::Roofline;
