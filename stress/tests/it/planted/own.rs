//! Ops that are declared wrong: by factors, by literal rows, by functions.

use super::{P, Planted, R, planted, s};
use sharding_core::backend::{Gather, IndexMap, LocalArray, UnaryOp};
use sharding_core::op::{CaseOperand, Cases, Fill, Op};
use sharding_core::{DType, Error, ErrorKind, KernelCx, ReduceOp, Result, Scalar, Shape, TensorMeta};
use sharding_ops::sharding_rule;

/// `x` with its two axes exchanged; the factors say that they stay.
#[sharding_rule(["m n -> m n"])]
pub fn planted_factors_not_exchanged(_cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.permute(&[1, 0]))
}

/// A product whose reduced factor is said to combine by maximum.
#[sharding_rule(["m k, k n -> m n"], reduce(k = max))]
pub fn planted_factors_max(cx: &mut KernelCx, a: &LocalArray, b: &LocalArray) -> Result<LocalArray> {
    cx.dot(a, b)
}

/// A product that is said to be linear in both at once.
#[sharding_rule(["m k, k n -> m n"], reduce(k = sum), linear(together))]
pub fn planted_factors_together(cx: &mut KernelCx, a: &LocalArray, b: &LocalArray) -> Result<LocalArray> {
    cx.dot(a, b)
}

/// A square that is said to be linear.
#[sharding_rule(["... -> ..."], linear(each))]
pub fn planted_factors_linear(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.binary(sharding_core::backend::BinaryOp::Mul, x, x)
}

/// A running sum along the last axis, which is said to be a factor like any other.
#[sharding_rule(["m n -> m n"])]
pub fn planted_factors_scan(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    let n = x.shape().extent(1);
    let mut columns = Vec::new();
    for i in 0..n {
        columns.push(cx.reduce(ReduceOp::Sum, &x.slice(1, 0, i + 1), &[1])?);
    }
    let columns: Vec<&LocalArray> = columns.iter().collect();
    join(cx, &columns, x)
}

fn join(cx: &mut KernelCx<'_>, parts: &[&LocalArray], like: &LocalArray) -> Result<LocalArray> {
    if parts.is_empty() {
        return Ok(like.clone());
    }
    let shapes: Vec<Shape> = parts.iter().map(|part| part.shape().clone()).collect();
    let map = IndexMap::concat(&shapes, 1);
    cx.copy(map.ok_or_else(|| Error::new(ErrorKind::Kernel, "columns do not join"))?, parts)
}

fn ones_shape(x: &TensorMeta) -> Result<TensorMeta> {
    Ok(x.clone())
}
fn one_case(cases: &mut Cases) {
    cases.add([CaseOperand::new(DType::F32, [6, 5])], planted_ones_like {});
}

/// Ones, of the shape of `x`: parts of them add up to more than one.
#[sharding_rule(rows = [(S(0)) => S(0), (S(1)) => S(1), (P) => P], shape = ones_shape, cases = one_case)]
pub fn planted_ones_like(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.fill(Scalar::Int(1), x.dtype(), x.shape())
}

fn exchange_shape(x: &TensorMeta) -> Result<TensorMeta> {
    match &*x.shape {
        [a, b] => Ok(TensorMeta::new(x.dtype, [*b, *a])),
        _ => Err(Error::new(ErrorKind::Shape, "two axes are exchanged")),
    }
}
fn exchange_cases(cases: &mut Cases) {
    // A square hides which axis is which from the shapes alone.
    cases.add([CaseOperand::new(DType::F32, [6, 6])], planted_rows_exchanged {});
}

/// `x` with its two axes exchanged; the rows say that they stay.
#[sharding_rule(rows = [(S(0)) => S(0)], shape = exchange_shape, cases = exchange_cases)]
pub fn planted_rows_exchanged(_cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.permute(&[1, 0]))
}

fn along_shape(table: &TensorMeta, indices: &TensorMeta) -> Result<TensorMeta> {
    match (&*table.shape, &*indices.shape) {
        ([a, _], [b, _]) if b <= a && indices.dtype == DType::I64 => {
            Ok(TensorMeta::new(table.dtype, &indices.shape))
        }
        _ => Err(Error::new(ErrorKind::Shape, "table and indices do not fit")),
    }
}
fn along_cases(cases: &mut Cases) {
    let indices = |shape: [usize; 2]| CaseOperand::new(DType::I64, shape).with_fill(Fill::Below(4));
    for rows in [6, 3] {
        cases.add([CaseOperand::new(DType::F32, [6, 4]), indices([rows, 2])], planted_gather_along {});
    }
}

/// `table[i, indices[i, j]]`: row by row, so cut alike where both have as many rows, and only there.
#[sharding_rule(rows = [(S(0), S(0)) => S(0)], shape = along_shape, cases = along_cases)]
pub fn planted_gather_along(
    cx: &mut KernelCx,
    table: &LocalArray,
    indices: &LocalArray,
) -> Result<LocalArray> {
    let gather = Gather { axis: 1, base: 0, bound: table.shape().extent(1) as i64 };
    let mut rows = Vec::new();
    for row in 0..indices.shape().extent(0) {
        let picked = cx.gather(gather.clone(), &table.slice(0, row, 1), &indices.slice(0, row, 1))?;
        let width = picked.elements();
        rows.push(cx.reshape(&picked, &Shape::from([1, width]))?);
    }
    if rows.is_empty() {
        return cx.fill(Scalar::Int(0), table.dtype(), indices.shape());
    }
    let shapes: Vec<Shape> = rows.iter().map(|row| row.shape().clone()).collect();
    let map = IndexMap::concat(&shapes, 0).ok_or_else(|| Error::new(ErrorKind::Kernel, "rows differ"))?;
    let rows: Vec<&LocalArray> = rows.iter().collect();
    cx.copy(map, &rows)
}

fn both_shape(x: &TensorMeta) -> Result<(TensorMeta, TensorMeta)> {
    Ok((x.clone(), exchange_shape(x)?))
}
fn both_cases(cases: &mut Cases) {
    cases.add([CaseOperand::new(DType::F32, [6, 5])], planted_two_results {});
}

/// `-x`, and `x` with its axes exchanged. Of the first nothing is claimed, of the second something wrong.
#[sharding_rule(rows = [(S(0)) => (U, S(0))], shape = both_shape, cases = both_cases)]
pub fn planted_two_results(cx: &mut KernelCx, x: &LocalArray) -> Result<(LocalArray, LocalArray)> {
    Ok((cx.unary(UnaryOp::Neg, x)?, x.permute(&[1, 0])))
}

fn absent_cases(_: &mut Cases) {}

/// An op that nobody can check: it has no cases.
#[sharding_rule(rows = [(S(0)) => S(0)], shape = ones_shape, cases = absent_cases)]
pub fn planted_no_cases(_cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn empty_cases(cases: &mut Cases) {
    cases.add([CaseOperand::new(DType::F32, [0, 3])], planted_empty_cases {});
}
fn empty_shape(x: &TensorMeta) -> Result<TensorMeta> {
    if x.shape.elements() > 0 {
        return Err(Error::new(ErrorKind::Shape, "only nothing"));
    }
    Ok(x.clone())
}

/// An op whose cases have no elements: whatever it does with them is right.
#[sharding_rule(rows = [(S(1)) => S(1), (P) => P], shape = empty_shape, cases = empty_cases)]
pub fn planted_empty_cases(_cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

fn misshapen_shape(x: &TensorMeta) -> Result<TensorMeta> {
    let last = x.shape.len() - 1;
    let extent = x.shape.extent(last);
    Ok(TensorMeta::new(x.dtype, x.shape.with_extent(last, if extent == 7 { 8 } else { extent })))
}
fn misshapen_cases(cases: &mut Cases) {
    cases.add([CaseOperand::new(DType::F32, [6, 4])], planted_misshapen {});
}

/// A shape function that is wrong for an extent that no case has.
#[sharding_rule(rows = [(S(0)) => S(0)], shape = misshapen_shape, cases = misshapen_cases)]
pub fn planted_misshapen(_cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    Ok(x.clone())
}

#[test]
fn declarations() {
    super::check(&planted());
}

fn planted() -> Vec<Planted> {
    vec![
        planted!("factors in another order"; <planted_factors_not_exchanged as Op>::DEF;
            ""; |_cx, _rows| ()),
        planted!("a reduced factor combined by maximum"; <planted_factors_max as Op>::DEF;
            "(Sharded(1), Sharded(0)) -> (Partial(max))"; |_cx, _rows| ()),
        planted!("a product linear in both at once"; <planted_factors_together as Op>::DEF;
            "(Partial(sum), Partial(sum)) -> (Partial(sum))"; |_cx, _rows| ()),
        planted!("a square that is linear"; <planted_factors_linear as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |_cx, _rows| ()),
        planted!("a running sum along a split axis"; <planted_factors_scan as Op>::DEF;
            "(Sharded(1)) -> (Sharded(1))"; |_cx, _rows| ()),
        planted!("ones on every part"; <planted_ones_like as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |_cx, _rows| ()),
        planted!("exchanged axes of a square"; <planted_rows_exchanged as Op>::DEF;
            "(Sharded(0)) -> (Sharded(0))"; |_cx, _rows| ()),
        planted!("rows of unequal number cut alike"; <planted_gather_along as Op>::DEF;
            "(Sharded(0), Sharded(0)) -> (Sharded(0))"; |_cx, _rows| ()),
        planted!("one of two results is wrong, of the other nothing is claimed"; <planted_two_results as Op>::DEF;
            "(Sharded(0)) -> (Unknown, Sharded(0))"; |_cx, _rows| ()),
        planted!("cases without elements"; <planted_empty_cases as Op>::DEF;
            ""; |_cx, _rows| ()),
        planted!("a shape function that is wrong for some extents"; <planted_misshapen as Op>::DEF;
            ""; |_cx, _rows| ()),
        planted!("a row of too many operands"; <planted_rows_exchanged as Op>::DEF;
            "(Replicated, Replicated) -> (Replicated)"; |_cx, rows| rows.add([R, R], [R])),
        planted!("a row of too few results"; <planted_two_results as Op>::DEF;
            "(Replicated) -> (Replicated)"; |_cx, rows| rows.add([R], [R])),
        planted!("a row that names an axis that is not there"; <planted_rows_exchanged as Op>::DEF;
            "(Sharded(7)) -> (Partial(sum))"; |_cx, rows| rows.add([s(7)], [P])),
    ]
}

#[test]
fn an_op_without_cases_is_not_sound() {
    let report = sharding_core::conformance::rule::check_rule(
        <planted_no_cases as Op>::DEF,
        sharding_core::BackendKind::CPU,
    );
    assert!(report.is_err_and(|error| error.to_string().contains("no cases")));
}
