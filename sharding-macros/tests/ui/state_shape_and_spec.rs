//! There is an axis for every entry.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding("tp", None, shape = [4])]
    weight: Tensor,
}

fn main() {}
