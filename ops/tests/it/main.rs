//! Tests of the ops: their rules, their results on any placement, and what they say to bad input.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod bad_input;
mod calibrate;
mod elementwise;
#[cfg(all(feature = "cpu", feature = "ndarray"))]
mod host;
mod joint;
#[cfg(feature = "cpu")]
mod manual;
mod nn;
mod placement;
mod policy;
#[cfg(all(feature = "cpu", feature = "ndarray"))]
mod process;
mod random;
mod rule;
#[cfg(all(feature = "sim", feature = "cpu"))]
mod sim;
mod state;
#[cfg(feature = "cpu")]
mod trace;
mod view;
