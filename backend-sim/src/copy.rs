//! Copies: nothing moves but the counts, and who writes a shared array gets one of its own.

use crate::device::{Effort, Flops};
use crate::{Simulation, storage};
use sharding_core::Result;
use sharding_core::backend::{LocalArray, Move};

/// A copy computes nothing.
pub(crate) const FLOPS: f64 = 0.0;

/// Every byte is read and written.
pub(crate) fn bytes(output: Option<&LocalArray>) -> f64 {
    2.0 * output.map_or(0, LocalArray::bytes) as f64
}

/// See [`Backend::copy`](sharding_core::backend::Backend::copy).
pub(crate) fn regions(moves: &mut [Move<'_>]) -> Result<()> {
    let simulation = Simulation::current();
    for one in moves {
        storage::own(one.into).map_err(|error| error.with_op(one.op))?;
        let bytes = 2.0 * one.pieces.iter().map(|(view, _)| view.bytes() as f64).sum::<f64>();
        let effort = Effort { dtype: one.into.dtype(), flops: Flops::others(FLOPS), bytes };
        simulation.count_kernel("copy", one.into.device(), effort);
    }
    Ok(())
}
