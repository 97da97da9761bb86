//! An op is not a method.

use sharding_core::{Result, backend::LocalArray, sharding_rule};

pub struct Model;

impl Model {
    #[sharding_rule(["m -> m"])]
    pub fn op(&self, x: &LocalArray) -> Result<LocalArray> {
        Ok(x.clone())
    }
}

fn main() {}
