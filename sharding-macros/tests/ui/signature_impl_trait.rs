//! An op is not generic.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, name: impl Into<String>) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
