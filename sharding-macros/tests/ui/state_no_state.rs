//! What holds no tensors is skipped.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    weight: Tensor,
    eps: f32,
}

fn main() {}
