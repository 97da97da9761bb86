//! Dtypes are those of tensors.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
struct Linear {
    #[sharding(dtype = F33)]
    weight: Tensor,
}

fn main() {}
