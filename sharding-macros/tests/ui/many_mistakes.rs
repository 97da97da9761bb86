//! All are reported at once, and nothing follows from them.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m k, k -> m n"], reduce(k = average), lineal(each))]
pub fn op(_: &mut KernelCx, x: LocalArray, y: &LocalArray, #[scalar] k: usize) -> Result<LocalArray> {
    Ok(x)
}

pub fn call(x: LocalArray, y: &sharding_core::Tensor) -> Result<sharding_core::Tensor> {
    op(x, y, 3)
}

pub fn arguments() -> op {
    op { k: 3 }
}

fn main() {}
