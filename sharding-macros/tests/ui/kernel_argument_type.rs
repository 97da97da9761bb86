//! Arguments have the types of the op.

use sharding_core::{KernelCx, Result, backend::LocalArray, kernel, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, k: usize) -> Result<LocalArray> {
    Ok(x.slice(0, 0, k))
}

#[kernel(op = op, backend = "cuda")]
fn fast(_: &mut KernelCx, x: &LocalArray, k: u32) -> Result<LocalArray> {
    Ok(x.slice(0, 0, k as usize))
}

fn main() {}
