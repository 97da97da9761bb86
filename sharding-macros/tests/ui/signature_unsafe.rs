//! A kernel is not unsafe.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

// SAFETY: it does not compile.
#[sharding_rule(["m -> m"])]
pub unsafe fn op(_: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
