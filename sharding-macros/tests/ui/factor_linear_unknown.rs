//! Linear names operands.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m, m -> m"], linear(z))]
pub fn op(_: &mut KernelCx, x: &LocalArray, y: &LocalArray) -> Result<LocalArray> {
    let _ = y;
    Ok(x.clone())
}

fn main() {}
