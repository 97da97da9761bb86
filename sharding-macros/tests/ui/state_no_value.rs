//! Keys have values.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(name)]
    weight: Tensor,
}

fn main() {}
