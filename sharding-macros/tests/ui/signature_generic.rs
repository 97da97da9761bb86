//! An op is not generic.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op<T: Clone>(_: &mut KernelCx, x: &LocalArray, value: T) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
