//! A whole factor is one of an operand.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"], whole(n))]
pub fn op(_: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
