//! A linear layer: the product with a transposed weight, and a bias.

use crate::check;
use sharding_core::backend::{FusedOp, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Place, Result, Shape, TensorMeta, sharding_rule};

/// The number of the operand.
const BIAS: usize = 2;

/// A bias in parts adds up beside any product in parts, each device its own.
fn bias_in_parts(cx: &RuleCx<'_>) -> Result<Rows> {
    let (mut rows, parts) = (Rows::new(), Place::PARTIAL);
    if cx.place(BIAS) != parts {
        return Ok(rows);
    }
    let last = check::operand_axis(cx, -1)?;
    rows.add([parts, Place::Replicated, parts], [parts]);
    rows.add([Place::Replicated, parts, parts], [parts]);
    let carried = cx.carried(0, last).into_iter().chain(cx.carried(1, 1));
    for place in std::iter::once(sharded(last)).chain(carried) {
        rows.add([place.on_axis(last), place.on_axis(1), parts], [parts]);
    }
    Ok(rows)
}

fn shape(x: &TensorMeta, weight: &TensorMeta, bias: Option<&TensorMeta>) -> Result<TensorMeta> {
    check::number("x", x)?;
    check::same_dtype(("x", x), ("weight", weight))?;
    let [outputs, inputs] = *weight.shape else {
        return Err(Error::new(
            ErrorKind::Shape,
            format!("a weight is a matrix [out, in], got {}", weight.shape),
        )
        .with_fix("matmul(&x, &y) multiplies by stacks of matrices"));
    };
    let Some((last, leading)) = x.shape.split_last() else {
        return Err(Error::new(ErrorKind::Shape, "x has no axis for the inputs of the layer")
            .with_fix("reshape(&x, &[1]) gives it one"));
    };
    if *last != inputs {
        let fix = if *last == outputs {
            "the weight is [out, in]; matmul(&x, &weight) multiplies by [in, out]".to_owned()
        } else {
            format!("give a weight [{outputs}, {last}]")
        };
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "the last axis of x {} has {last}, and the weight {} takes {inputs}",
                x.shape, weight.shape
            ),
        )
        .with_fix(fix));
    }
    if let Some(bias) = bias {
        check::same_dtype(("x", x), ("bias", bias))?;
        if *bias.shape != [outputs] {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "the bias must have the extent [{outputs}] of the weight's outputs, got {}",
                    bias.shape
                ),
            )
            .with_fix(format!("reshape(&bias, &[{outputs}])")));
        }
    }
    Ok(TensorMeta::new(x.dtype, leading.iter().copied().chain([outputs]).collect::<Shape>()))
}

fn cases(cases: &mut Cases) {
    for (x, outputs) in [
        (&[4, 7][..], 5),
        (&[2, 3, 6], 4),
        (&[6], 4),
        (&[5, 2, 1, 3], 2),
        (&[2, 0], 3),
        (&[0, 3], 2),
        (&[4, 5], 0),
    ] {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64] {
            let last = x.last().copied().unwrap_or(1);
            let operand = |shape: &[usize]| vec![CaseOperand::new(dtype, shape)];
            for bias in [operand(&[outputs]), Vec::new()] {
                cases.add_grouped([operand(x), operand(&[outputs, last]), bias], linear {});
            }
        }
    }
}

/// Whether this device adds the bias: one device does for each sum, unless the bias comes in parts itself.
fn adds_bias(cx: &KernelCx<'_>) -> Result<bool> {
    let (result, bias) = (cx.result(0)?, cx.operand(BIAS)?);
    let counts = |(axis, place): (usize, &Place)| {
        !place.is_partial()
            || bias.places().get(axis).is_some_and(|place| place.is_partial())
            || result.mesh().coord(cx.position(), axis) == 0
    };
    Ok(result.places().iter().enumerate().all(counts))
}

/// `x · weightᵀ + bias`: `x` `[.., in]`, `weight` `[out, in]` as files of other libraries have it, `bias` `[out]` or
/// none; the result is `[.., out]`. The weight is read where it lies, without a transposed copy.
///
/// | split | result | known as |
/// |---|---|---|
/// | a leading axis of `x` | split alike | data parallel |
/// | `weight` and `bias` along `out` | split along its last axis | column parallel |
/// | `x` and `weight` along `in` | Partial | row parallel |
///
/// Parts of a sum in `x` or in `weight` pass through. Where the result is Partial, a whole bias is added by one device, so
/// it counts once, and a Partial bias part by part.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let columns = DeviceMapping::new(&mesh, [Sharded(1)])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0], [1, 2], &columns)?;
/// let weight = Tensor::from_slice(&[1.0_f32, 0.0, 10.0, 1.0], [2, 2], &columns)?;
/// let bias = Tensor::from_slice(&[0.5_f32, -0.5], [2], &DeviceMapping::replicated(&mesh))?;
/// let y = linear(&x, &weight, Some(&bias))?;
/// assert_eq!(y.layout().places(), [Partial(ReduceOp::Sum)]);
/// assert_eq!(y.to_vec::<f32>()?, [1.5, 11.5]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if `x` has no axis, the weight is no matrix or the extents do not fit,
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for different dtypes or truth values, else as every op.
#[sharding_rule(
    ["... k, n k, n -> ... n"],
    reduce(k = sum), linear(x, weight), rule_also = bias_in_parts, shape = shape, cases = cases
)]
pub fn linear(
    cx: &mut KernelCx,
    x: &LocalArray,
    weight: &LocalArray,
    bias: Option<&LocalArray>,
) -> Result<LocalArray> {
    // All leading axes as one: a single product.
    let (inputs, outputs) = (weight.shape().extent(1), weight.shape().extent(0));
    let leading = x.shape().get(..x.shape().len().saturating_sub(1)).unwrap_or(&[]);
    let rows = cx.reshape(x, &Shape::from([leading.iter().product(), inputs]))?;
    let product = match bias {
        Some(bias) if adds_bias(cx)? => cx.last().fused(FusedOp::Linear, &[&rows, weight, bias])?,
        // The same kernel as on the device that adds it.
        Some(_) => cx.last().fused(FusedOp::Linear, &[&rows, weight])?,
        None => cx.last().dot(&rows, &weight.permute(&[1, 0]))?,
    };
    cx.reshape(&product, &leading.iter().copied().chain([outputs]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn rows_are_those_of_data_column_and_row_parallel_layers() {
        let operands = [ask::f32s(&[2, 4, 8]), ask::f32s(&[6, 8]), ask::f32s(&[6])];
        let rows = [
            "R R R -> R",
            "S0 R R -> S0",
            "S1 R R -> S1",
            "R S0 S0 -> S2",
            "S2 S1 R -> P",
            "P R R -> P",
            "R P R -> P",
        ];
        ask::check::<linear>(&linear {}, &[2], &operands, &rows);
    }

    #[test]
    fn a_bias_in_parts_is_added_part_by_part() {
        let bias: ask::Placed<'_> = (DType::F32, &[6], &[Place::PARTIAL]);
        let rows =
            ask::rows::<linear>(&linear {}, &[2], &[ask::f32s(&[8]), ask::f32s(&[6, 8]), bias]).unwrap();
        assert_eq!(rows.last_chunk(), Some(&["P R P -> P", "R P P -> P", "S0 S1 P -> P"].map(str::to_owned)));
    }
}
