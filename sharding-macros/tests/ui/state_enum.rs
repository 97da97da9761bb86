//! A state is no enum.

use sharding_core::{ShardedState, Tensor};

#[derive(ShardedState)]
enum Either {
    Left(Tensor),
    Right(Tensor),
}

fn main() {}
