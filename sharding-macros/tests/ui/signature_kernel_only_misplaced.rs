//! An operand is seen by the rule.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, #[kernel_only] x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
