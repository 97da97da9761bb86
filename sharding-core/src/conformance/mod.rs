//! Conformance: what every backend and every rule must pass. Feature `testing`.
//!
//! * [`rule`] checks the rules of ops against their kernels; [`check_rule!`](crate::check_rule) makes a test of it.
//! * [`host`] holds whole tensors on the host and [`naive`] every primitive and step on them: what the suites compare with.

pub mod host;
pub mod naive;
pub mod rule;
