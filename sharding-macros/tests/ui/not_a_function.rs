//! The attribute stands on a function.

use sharding_core::sharding_rule;

#[sharding_rule(["m -> m"])]
pub struct Op;

fn main() {}
