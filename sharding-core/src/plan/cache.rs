//! Stub.
pub(crate) struct PlanCache;
