//! The rows come from somewhere.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule()]
pub fn op(_: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
