//! What is skipped has no spec.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding("tp", skip)]
    weight: Tensor,
}

fn main() {}
