//! A shape is a list.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(shape = 4)]
    weight: Tensor,
}

fn main() {}
