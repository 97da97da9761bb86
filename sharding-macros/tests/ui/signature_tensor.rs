//! A kernel gets local arrays.

use sharding_core::{KernelCx, Result, Tensor, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &Tensor) -> Result<LocalArray> {
    todo!()
}

fn main() {}
