//! A list says something.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding()]
    weight: Tensor,
}

fn main() {}
