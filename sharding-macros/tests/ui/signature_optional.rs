//! An optional operand is borrowed.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, bias: Option<LocalArray>) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
