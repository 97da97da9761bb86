//! A kernel has parameters.

use sharding_core::{Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op() -> Result<LocalArray> {
    todo!()
}

fn main() {}
