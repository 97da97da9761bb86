//! A value around the elements.

use crate::{exchanged, row};
use sharding_core::backend::{IndexMap, LocalArray, Piece};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx, pass_through_rows, replicated_rows};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Place, ReduceOp, Result, Scalar, Shape, Shards, StageCx, TensorMeta,
    sharding_rule,
};

/// How many elements are added before and behind those of an axis.
type Pads = (usize, usize);

fn padded(shape: &Shape, pads: &[Pads]) -> Result<Shape> {
    if pads.len() != shape.len() {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("{} pairs are given for the {} axes of {shape}", pads.len(), shape.len()),
        )
        .with_fix("give a pair for each axis: (0, 0) where nothing is added"));
    }
    let extent = |(extent, (before, behind)): (&usize, &Pads)| {
        before.checked_add(*extent).and_then(|sum| sum.checked_add(*behind))
    };
    let extents: Option<Shape> = shape.iter().zip(pads).map(extent).collect();
    Shape::new(extents.ok_or_else(|| {
        Error::new(ErrorKind::Overflow, format!("{shape} with {pads:?} around it has too many elements"))
            .with_fix("add fewer elements")
    })?)
}

/// Where the elements come from; the others are `value`.
fn map(shape: &Shape, pads: &[Pads], value: Scalar) -> Result<IndexMap> {
    let into = shape.iter().zip(pads).map(|(extent, (before, _))| *before..before + extent).collect();
    let piece = Piece { operand: 0, into, offset: 0, strides: shape.strides() };
    Ok(IndexMap { shape: padded(shape, pads)?, pieces: vec![piece], fill: value })
}

/// Whether combining the value with itself gives it: then every part may have it.
fn may_be_parts(op: ReduceOp, dtype: DType, value: Scalar) -> bool {
    match op {
        ReduceOp::Max | ReduceOp::Min => true,
        _ if dtype == DType::Bool => true,
        ReduceOp::Sum => value.as_f64() == 0.0,
        ReduceOp::Prod => value.as_f64() == 1.0,
    }
}

/// Axes to which nothing is added keep their split. Of another one every device gets its share of the longer axis.
fn rule(cx: &RuleCx<'_>, pads: &[Pads], value: Scalar) -> Result<Rows> {
    let mut rows = Rows::new();
    let Some(x) = cx.operands.first() else { return Ok(rows) };
    let grows = |axis: usize| pads.get(axis).is_some_and(|pads| *pads != (0, 0));
    replicated_rows(cx, &mut rows);
    pass_through_rows(cx, 0, &mut rows, |axis| (!grows(axis)).then_some(axis));
    let op = row::combination(cx);
    if may_be_parts(op, x.meta.dtype, value) || !(0..pads.len()).any(grows) {
        rows.add([Place::Partial(op)], [Place::Partial(op)]);
    }
    if let Some(axis) = cx.place(0).tensor_axis().filter(|axis| grows(*axis)) {
        let to = exchanged::split_or_whole(cx, axis, 0, Some(axis));
        exchanged::add_row(cx, &mut rows, [cx.place(0)], &[(map(&x.meta.shape, pads, value)?, to)]);
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, pads: &[Pads], value: Scalar) -> Result<TensorMeta> {
    if value.to_bytes(x.dtype).is_none() {
        return Err(Error::new(ErrorKind::DType, format!("the number {value} is no {}", x.dtype))
            .with_fix("give a number of the tensor's dtype"));
    }
    Ok(TensorMeta::new(x.dtype, padded(&x.shape, pads)?))
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, pads: &[Pads], value: Scalar) -> Result<Shards> {
    let shape = cx.operand(0)?.shape();
    cx.exchange(&map(shape, pads, value)?, 0, std::slice::from_ref(x))
}

fn cases(cases: &mut Cases) {
    for (shape, pads) in [
        (&[7, 5][..], &[(1, 2), (0, 0)][..]),
        (&[7, 5], &[(0, 0), (0, 3)]),
        (&[2, 6, 3], &[(0, 0), (1, 0), (2, 1)]),
        (&[1, 4], &[(3, 0), (0, 0)]),
        (&[0, 3], &[(2, 1), (0, 0)]),
        (&[5], &[(0, 0)]),
        (&[], &[]),
    ] {
        for (dtype, value) in [
            (DType::F32, Scalar::Float(0.0)),
            (DType::F32, Scalar::Float(-2.5)),
            (DType::I64, Scalar::Int(7)),
            (DType::Bool, Scalar::Bool(true)),
        ] {
            cases.add([CaseOperand::new(dtype, shape)], pad { pads: pads.into(), value });
        }
    }
}

/// `x` with `value` around it: of axis `i`, `pads[i].0` elements before and `pads[i].1` behind its own.
///
/// Axes to which nothing is added keep their split. Of a split axis that grows every device gets its balanced share: only
/// what it does not hold moves, and the value is made where it is needed. Parts of a sum pass if the value is 0, those of a
/// maximum or minimum always; else a Partial `x` is reduced first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4], [4], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = pad(&x, &[(1, 3)], 0_i64.into())?;
/// assert_eq!(y.mapping(), x.mapping());
/// assert_eq!(y.to_vec::<i64>()?, [0, 1, 2, 3, 4, 0, 0, 0]);
/// assert_eq!(x.pad(&[(0, 1)], 9_i64)?.to_vec::<i64>()?, [1, 2, 3, 4, 9]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) unless there is a pair for each axis,
/// [`ErrorKind::DType`](crate::ErrorKind::DType) if the value is none of the dtype,
/// [`ErrorKind::Overflow`](crate::ErrorKind::Overflow) for too many elements, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn pad(cx: &mut KernelCx, x: &LocalArray, pads: &[(usize, usize)], value: Scalar) -> Result<LocalArray> {
    // Axes that grow are whole here.
    let map = map(x.shape(), pads, value)?;
    if map.shape == *x.shape() { Ok(x.clone()) } else { cx.copy(map, &[x]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    fn check(dtype: DType, place: Place, value: impl Into<Scalar>, want: &[&str]) {
        let args = pad { pads: [(1, 3), (0, 0)][..].into(), value: value.into() };
        ask::check::<pad>(&args, &[2], &[(dtype, &[4, 3], &[place])], want);
    }

    #[test]
    fn of_an_axis_that_grows_every_device_gets_its_share() {
        // The first device gets the value and rows 0, 1, 2, of which it lacks row 2; the other row 3, which it has.
        let moved = "S0 -> S0 +permute of 12";
        check(DType::F32, Place::Sharded(0), 0.0, &["R -> R", "S1 -> S1", "P -> P", moved]);
    }

    #[test]
    fn parts_may_have_the_value_if_combining_it_gives_it() {
        let with = |row| ["R -> R", "S1 -> S1", row];
        check(DType::F32, Place::PARTIAL, 1.0, &["R -> R", "S1 -> S1"]);
        check(DType::F32, Place::PARTIAL, 0.0, &with("P -> P"));
        check(DType::F32, Place::Partial(ReduceOp::Prod), 1.0, &with("Pprod -> Pprod"));
        check(DType::F32, Place::Partial(ReduceOp::Max), 1.0, &with("Pmax -> Pmax"));
        check(DType::Bool, Place::PARTIAL, true, &with("P -> P"));
    }
}
