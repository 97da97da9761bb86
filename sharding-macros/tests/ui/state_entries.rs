//! A tensor has at most 16 axes.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, "tp")]
    weight: Tensor,
}

fn main() {}
