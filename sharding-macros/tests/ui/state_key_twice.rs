//! Keys are said once.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(name = "a", name = "b")]
    weight: Tensor,
}

fn main() {}
