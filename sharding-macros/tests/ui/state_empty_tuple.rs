//! What nothing splits is None.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding((), "tp")]
    weight: Tensor,
}

fn main() {}
