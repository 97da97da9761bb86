//! There is one spec.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding("tp", None)]
    #[sharding(None, "tp")]
    weight: Tensor,
}

fn main() {}
