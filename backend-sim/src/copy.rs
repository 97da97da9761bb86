//! Copies: nothing moves, but who writes a shared array gets one of its own.

use crate::storage;
use sharding_core::Result;
use sharding_core::backend::Move;

/// A copy computes nothing.
pub(crate) const FLOPS: f64 = 0.0;

/// See [`Backend::copy`](sharding_core::backend::Backend::copy).
pub(crate) fn regions(moves: &mut [Move<'_>]) -> Result<()> {
    moves.iter_mut().try_for_each(|one| storage::own(one.into).map_err(|error| error.with_op(one.op)))
}
