//! Conversion to another dtype, elementwise.

use crate::elementwise;
use crate::row;
use sharding_core::backend::{Expr, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Place, ReduceOp, Result, TensorMeta, sharding_rule};

/// Parts pass where converting them and combining the results is combining them and converting the result.
fn parts(cx: &RuleCx<'_>, to: DType) -> Result<Rows> {
    let mut rows = Rows::new();
    let op = row::combination(cx);
    if cx.operands.first().is_some_and(|x| passes(x.meta.dtype, to, op)) {
        rows.add([Place::Partial(op)], [Place::Partial(op)]);
    }
    Ok(rows)
}

fn passes(from: DType, to: DType, op: ReduceOp) -> bool {
    match op {
        _ if from == to => true,
        // Sums of wider floats lose less; sums of integers wrap, which dropping high bits keeps and adding them does not.
        ReduceOp::Sum => {
            (from.is_float() && to.is_float() && from.size() < to.size())
                || (from.is_integer() && to.is_integer() && from.size() >= to.size())
        }
        // Rounding to the nearest keeps the order, and NaN.
        ReduceOp::Max | ReduceOp::Min => from != DType::Bool && to.is_float(),
        ReduceOp::Prod => false,
    }
}

fn shape(x: &TensorMeta, dtype: DType) -> Result<TensorMeta> {
    Ok(TensorMeta::new(dtype, &x.shape))
}

fn cases(cases: &mut Cases) {
    let dtypes = [DType::F32, DType::I64, DType::Bool];
    for (from, to) in dtypes.into_iter().flat_map(|from| dtypes.map(|to| (from, to))) {
        elementwise::unary_cases(cases, from, cast { dtype: to });
    }
    let others = dtypes.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to)));
    let others = others.filter(|(_, to)| !dtypes.contains(to));
    // To wider ones, whose parts pass or not.
    let wider = [(DType::F16, DType::F32), (DType::BF16, DType::F64), (DType::I32, DType::I64)];
    for (from, to) in others.chain(wider) {
        cases.add([CaseOperand::new(from, [7, 5])], cast { dtype: to });
    }
}

/// `x` as another dtype, elementwise, as Rust's `as` converts: floating-point numbers to integers are cut off towards 0
/// and kept in range (NaN becomes 0), integers to smaller ones wrap, numbers to floating-point ones are rounded to the
/// nearest. To bool: whether `x` is not 0; `true` is 1. The same dtype costs nothing.
///
/// Any split of `x` is kept. The parts of a sum pass where that loses nothing: to a wider floating-point dtype, and from
/// integers to integers that are no wider. Parts of a maximum or minimum of numbers pass to floating-point dtypes. Else a
/// Partial `x` is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.9_f32, -1.9, 0.0], [3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(cast(&x, DType::I64)?.to_vec::<i64>()?, [1, -1, 0]);
/// assert_eq!(cast(&x, DType::Bool)?.to_vec::<bool>()?, [true, true, false]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// As every op.
#[sharding_rule(["... -> ..."], rule_also = parts, shape = shape, cases = cases)]
pub fn cast(cx: &mut KernelCx, x: &LocalArray, dtype: DType) -> Result<LocalArray> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    cx.map(&Expr::cast(dtype, Expr::input(0)), &[x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn parts_pass_where_nothing_is_lost() {
        let rows = |from, to, op, more: &[&str]| {
            let want = [&["R -> R", "S0 -> S0"], more].concat();
            ask::check::<cast>(&cast { dtype: to }, &[2], &[(from, &[4], &[Place::Partial(op)])], &want);
        };
        let (f, i, b) = (DType::F32, DType::I64, DType::Bool);
        rows(f, f, ReduceOp::Sum, &["P -> P"]);
        rows(b, b, ReduceOp::Prod, &["Pprod -> Pprod"]);
        rows(f, DType::F64, ReduceOp::Sum, &["P -> P"]);
        rows(f, DType::F16, ReduceOp::Sum, &[]);
        rows(DType::F16, DType::BF16, ReduceOp::Sum, &[]);
        rows(f, DType::F16, ReduceOp::Max, &["Pmax -> Pmax"]);
        rows(i, DType::U8, ReduceOp::Sum, &["P -> P"]);
        rows(DType::I32, i, ReduceOp::Sum, &[]);
        rows(f, i, ReduceOp::Sum, &[]);
        rows(i, f, ReduceOp::Sum, &[]);
        rows(i, f, ReduceOp::Max, &["Pmax -> Pmax"]);
        rows(f, i, ReduceOp::Max, &[]);
        rows(b, f, ReduceOp::Max, &[]);
    }
}
