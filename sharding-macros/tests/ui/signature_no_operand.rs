//! An op has an operand.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, k: usize) -> Result<LocalArray> {
    todo!()
}

fn main() {}
