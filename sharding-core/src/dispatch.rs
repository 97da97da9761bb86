//! Dispatch.
use crate::op::Op;
use crate::{Operand, Result, Results};

/// Runs an op.
///
/// # Errors
/// What shape function, rule, planner, redistribution or kernel say.
#[track_caller]
pub fn dispatch<O: Op>(operands: &mut [Operand<'_>], args: O::Args) -> Result<Results> {
    let _ = (operands, args);
    todo!()
}
