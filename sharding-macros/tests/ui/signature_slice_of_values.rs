//! A slice of operands has references.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, xs: &[LocalArray]) -> Result<LocalArray> {
    Ok(xs[0].clone())
}

fn main() {}
