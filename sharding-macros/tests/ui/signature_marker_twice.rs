//! A marker stands once.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, #[scalar] #[scalar] x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
