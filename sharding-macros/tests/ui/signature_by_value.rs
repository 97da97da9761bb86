//! Operands are borrowed.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: LocalArray) -> Result<LocalArray> {
    Ok(x)
}

fn main() {}
