//! What the reductions share.

use crate::elementwise::kin;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases, OpArgs};
use sharding_core::{DType, KernelCx, ReduceOp, Result};

/// Combines the elements of an axis, which stays with extent 1 or goes.
pub(crate) fn reduce(
    cx: &mut KernelCx<'_>,
    op: ReduceOp,
    x: &LocalArray,
    axis: usize,
    keepdims: bool,
) -> Result<LocalArray> {
    let reduced = cx.reduce(op, x, &[axis])?;
    if keepdims {
        return Ok(reduced);
    }
    let shape = reduced.shape().without(axis);
    cx.reshape(&reduced, &shape)
}

/// Every axis of a few shapes, kept and dropped; uneven, of extent 1, and 0 on an axis that is not reduced;
/// and the [`kin`] of the dtype.
pub(crate) fn cases<A: OpArgs>(cases: &mut Cases, dtype: DType, args: impl Fn(isize, bool) -> A) {
    for (shape, axis) in [
        (&[7, 5][..], 0),
        (&[7, 5], -1),
        (&[2, 3, 4], 1),
        (&[3, 1, 5], 1),
        (&[6], 0),
        (&[0, 4], 1),
        (&[8, 8, 2], 0),
    ] {
        for keepdims in [true, false] {
            cases.add([CaseOperand::new(dtype, shape)], args(axis, keepdims));
        }
    }
    for dtype in kin(dtype) {
        cases.add([CaseOperand::new(*dtype, [7, 5])], args(0, false));
    }
}
