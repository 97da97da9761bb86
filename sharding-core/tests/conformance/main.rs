//! The conformance suites, looked at from outside: what they let pass and what they catch.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::expect_used, unreachable_pub)]

mod backend;
mod ops;
mod rule;
mod suite;
