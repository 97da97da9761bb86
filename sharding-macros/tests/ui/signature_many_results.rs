//! At most four results in a tuple.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray) -> Result<(LocalArray, LocalArray, LocalArray, LocalArray, LocalArray)> {
    todo!()
}

fn main() {}
