//! Cases that the elementwise ops share.

use sharding_core::DType;
use sharding_core::op::{CaseOperand, Cases, Fill, OpArgs};

/// The other dtypes of a kind, for which a case or two is enough: kernels and rules are the same.
pub(crate) fn kin(dtype: DType) -> &'static [DType] {
    match dtype {
        DType::F32 => &[DType::F64, DType::F16, DType::BF16],
        DType::I64 => &[DType::I8, DType::I32, DType::U16, DType::U64],
        _ => &[],
    }
}

/// One operand: plain, uneven, with extents of 1 and 0, without axes; and the [`kin`] of the dtype.
pub(crate) fn unary_cases(cases: &mut Cases, dtype: DType, args: impl OpArgs + Clone) {
    for shape in [&[7, 5][..], &[2, 3, 4], &[1, 3], &[0, 4], &[6], &[]] {
        cases.add([CaseOperand::new(dtype, shape)], args.clone());
    }
    for dtype in kin(dtype) {
        cases.add([CaseOperand::new(*dtype, [7, 5])], args.clone());
    }
}

/// Two operands that broadcast on either side, are equal, have extents of 1 and 0, or no axes; and the [`kin`] of the
/// dtype.
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
    for dtype in kin(dtype) {
        let rhs = CaseOperand::new(*dtype, [3, 6]).with_fill(rhs_fill);
        cases.add([CaseOperand::new(*dtype, [4, 1, 6]), rhs], args.clone());
    }
}

#[cfg(test)]
mod tests {
    use crate::{ask, *};

    /// Any split is kept, nothing else is claimed.
    macro_rules! splits_only {
        ($dtype:ident: $($op:ident)*) => {$(
            let x: ask::Placed<'_> = (DType::$dtype, &[4, 1], &[Replicated]);
            ask::check::<$op>(&$op {}, &[2], &[x], &["R -> R", "S0 -> S0", "S1 -> S1"]);
        )*};
    }

    /// The same for two operands, of which one broadcasts.
    macro_rules! splits_of_two_only {
        ($dtype:ident: $($op:ident)*) => {$(
            let of = |shape| -> ask::Placed<'_> { (DType::$dtype, shape, &[Replicated]) };
            let rows = ["R R -> R", "S0 R -> S0", "S1 S0 -> S1"];
            ask::check::<$op>(&$op {}, &[2], &[of(&[4, 6]), of(&[6])], &rows);
        )*};
    }

    #[test]
    fn functions_that_are_not_linear_keep_splits_and_no_parts() {
        splits_only!(F32: abs exp log sqrt rsqrt tanh erf sigmoid silu relu gelu gelu_tanh);
        splits_only!(Bool: logical_not);
        splits_of_two_only!(F32: eq ne lt le gt ge pow);
        splits_of_two_only!(Bool: logical_and logical_or logical_xor);
    }
}
