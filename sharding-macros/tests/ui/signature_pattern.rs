//! A parameter has a name.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, (a, b): (usize, usize)) -> Result<LocalArray> {
    Ok(x.slice(0, a, b))
}

fn main() {}
