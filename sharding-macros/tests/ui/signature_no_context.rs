//! The context comes first.

use sharding_core::{Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
