//! A mesh axis splits once.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding("tp", ("dp", "tp"))]
    weight: Tensor,
}

fn main() {}
