//! An initialiser has the fields of its state.

use sharding_core::{Result, ShardedState, Tensor, state::Init};

#[derive(ShardedState)]
struct Linear {
    weight: Tensor,
}

fn new(init: &Init<'_, Linear>) -> Result<Linear> {
    Ok(Linear { weight: init.wieght.build(|_, _| unreachable!())? })
}

fn main() {}
