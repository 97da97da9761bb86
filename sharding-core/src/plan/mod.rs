//! The planner: which row an op runs on each mesh axis, and what moves for it.

mod cache;
mod call;
mod cost;
mod feasible;
mod pick;
mod policy;
mod report;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub(crate) use cache::{Key, KeyOperand, PlanCache};
pub use call::CallPlan;
pub use cost::{CostModel, StepQuery, VolumeCost};
pub use pick::{Plan, PlanRequest, plan};
pub use policy::{Mode, Policy};
pub use report::{Report, trace};
