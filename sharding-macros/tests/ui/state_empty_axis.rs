//! Mesh axes have names.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding("", None)]
    weight: Tensor,
}

fn main() {}
