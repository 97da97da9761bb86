//! Only an operand may be a number.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, #[scalar] k: usize) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
