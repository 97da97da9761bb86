//! The attribute has a list.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding]
    weight: Tensor,
}

fn main() {}
