//! Tests of the ops: their rules, their results on any placement, and what they say to bad input.

mod bad_input;
mod placement;
mod rule;
