//! The attribute stands on a function.

use sharding_core::{KernelCx, Result, backend::LocalArray, kernel, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, k: usize) -> Result<LocalArray> {
    Ok(x.slice(0, 0, k))
}

#[kernel(op = op, backend = "cuda")]
pub struct Fast;

fn main() {}
