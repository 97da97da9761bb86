//! Cases that the elementwise ops share.

use sharding_core::DType;
use sharding_core::op::{CaseOperand, Cases, Fill, OpArgs};

/// One operand: plain, uneven, with extents of 1 and 0, without axes.
pub(crate) fn unary_cases(cases: &mut Cases, dtype: DType, args: impl OpArgs + Clone) {
    for shape in [&[7, 5][..], &[2, 3, 4], &[1, 3], &[0, 4], &[6], &[]] {
        cases.add([CaseOperand::new(dtype, shape)], args.clone());
    }
}

/// Two operands that broadcast on either side, are equal, have extents of 1 and 0, or no axes.
pub(crate) fn binary_cases(cases: &mut Cases, dtype: DType, rhs_fill: Fill, args: impl OpArgs + Clone) {
    for (lhs, rhs) in [
        (&[7, 5][..], &[7, 5][..]),
        (&[4, 1, 6], &[3, 6]),
        (&[6], &[5, 6]),
        (&[5, 4], &[]),
        (&[1, 3], &[1, 3]),
        (&[0, 3], &[1, 3]),
    ] {
        let rhs = CaseOperand::new(dtype, rhs).with_fill(rhs_fill);
        cases.add([CaseOperand::new(dtype, lhs), rhs], args.clone());
    }
}
