//! Items are known.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding("tp", replicated)]
    weight: Tensor,
}

fn main() {}
