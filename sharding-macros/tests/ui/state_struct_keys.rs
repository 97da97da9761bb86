//! Specs stand on fields.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
#[sharding("tp", None)]
struct Linear {
    weight: Tensor,
}

fn main() {}
