//! Names differ.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(name = "bias")]
    weight: Tensor,
    bias: Tensor,
}

fn main() {}
