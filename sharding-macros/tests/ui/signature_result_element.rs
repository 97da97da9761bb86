//! Several results are a tuple.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray) -> Result<Option<LocalArray>> {
    Ok(Some(x.clone()))
}

fn main() {}
