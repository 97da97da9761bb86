//! A tensor lies as one of them says.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding("tp", placed)]
    weight: Tensor,
}

fn main() {}
