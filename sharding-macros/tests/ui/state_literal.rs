//! Mesh axes are texts.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(0, "tp")]
    weight: Tensor,
}

fn main() {}
