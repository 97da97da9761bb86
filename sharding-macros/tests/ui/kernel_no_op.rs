//! The path is an op.

use sharding_core::{KernelCx, Result, backend::LocalArray, kernel, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, k: usize) -> Result<LocalArray> {
    Ok(x.slice(0, 0, k))
}

#[kernel(op = String, backend = "cuda")]
fn fast(_: &mut KernelCx, x: &LocalArray, k: usize) -> Result<LocalArray> {
    Ok(x.slice(0, 0, k))
}

fn main() {}
