//! The recorder hook: what a tape, a profiler or a test sees of every call.

use crate::op::{OpArgs, OpDef};
use crate::{Result, Tensor};

/// One finished call of an op.
pub struct Call<'a> {
    /// The op.
    pub def: &'static OpDef,
    /// The tensors it read, flat; numbers and written buffers are absent.
    pub operands: &'a [&'a Tensor],
    /// The plain arguments.
    pub args: &'a dyn OpArgs,
    /// The results.
    pub results: &'a [Tensor],
    /// The score of the plan; 0 where nothing moved.
    pub cost: f64,
}

/// One finished transfer: `transfer_to`, or an explicit collective such as `all_reduce`. The value is the same, but where it
/// lies; reshards that an op inserts are part of its [`Call`].
pub struct Transfer<'a> {
    /// What was called.
    pub op: &'static str,
    /// The tensor before.
    pub operand: &'a Tensor,
    /// The tensor after.
    pub result: &'a Tensor,
}

/// Sees each call of the scope that it is put in force for, after it ran. At most one is in force; it sees the
/// outermost calls only.
pub trait Recorder: Send + Sync {
    /// Called once per finished call.
    ///
    /// # Errors
    /// An error here is the call's error.
    fn record(&self, call: &Call<'_>) -> Result<()>;

    /// Called once per finished transfer that gave another tensor.
    ///
    /// # Errors
    /// An error here is the transfer's error.
    fn transfer(&self, transfer: &Transfer<'_>) -> Result<()>;
}
