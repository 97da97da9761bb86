//! Items have commas between them.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding("tp" None)]
    weight: Tensor,
}

fn main() {}
