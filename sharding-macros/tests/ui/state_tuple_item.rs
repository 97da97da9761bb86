//! Tuples are of names.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(("dp", None))]
    weight: Tensor,
}

fn main() {}
