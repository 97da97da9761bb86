//! Conformance: what every backend and every rule must pass. Feature `testing`.
//!
//! * [`backend`] checks backends against the contract; [`backend_suite!`](crate::backend_suite) makes tests of it.
//! * [`rule`] checks the rules of ops against their kernels; [`check_rule!`](crate::check_rule) makes a test of it.
//! * [`host`] holds whole tensors on the host and [`naive`] every primitive and step on them: what the suites compare with.

pub mod backend;
pub mod host;
pub mod naive;
pub mod rule;
