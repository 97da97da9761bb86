//! Names have no empty parts.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(name = "attn.")]
    weight: Tensor,
}

fn main() {}
