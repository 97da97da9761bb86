//! A maximum is not linear.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m k -> m"], reduce(k = max), linear(each))]
pub fn op(_: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
