//! A parameter has a plain name.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, mut x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
