//! A Partial combines by one of four.

use sharding_core::{KernelCx, Result, TensorMeta, backend::LocalArray, sharding_rule};

#[sharding_rule(rows = [(P(mean)) => P], shape = shape)]
pub fn op(_: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn shape(x: &TensorMeta) -> Result<TensorMeta> {
    Ok(x.clone())
}

fn main() {}
