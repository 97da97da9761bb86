//! An argument can be part of a key.

use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};

#[sharding_rule(["m -> m"])]
pub fn op(_: &mut KernelCx, x: &LocalArray, mode: Mode) -> Result<LocalArray> {
    let _ = mode;
    Ok(x.clone())
}

#[derive(Clone, Debug)]
pub struct Mode;

fn main() {}
