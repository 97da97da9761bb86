//! A struct has specs of its own.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    weight: Tensor,
}

#[derive(ShardedState)]
struct Model {
    #[sharding("tp", None)]
    layers: Vec<Linear>,
}

fn main() {}
