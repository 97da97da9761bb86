//! A state is no union.

use sharding_core::ShardedState;

#[derive(ShardedState)]
union Either {
    left: u32,
    right: f32,
}

fn main() {}
