//! Dots are never reduced.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["... k -> k"])]
pub fn op(_: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
