//! A kernel fails with the error of the library.

use sharding_core::{KernelCx, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray) -> std::io::Result<LocalArray> {
    Ok(x.clone())
}

fn main() {}
