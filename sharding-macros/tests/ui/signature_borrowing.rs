//! Arguments do not borrow.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, names: Vec<&str>) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
