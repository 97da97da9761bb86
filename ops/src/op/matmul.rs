//! Matrix product.

use crate::check;
use crate::elementwise::kin;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Result, Shape, TensorMeta, broadcast, sharding_rule};

/// An operand's batch axes and its matrix `[rows, columns]`; a vector is a row on the left and a column on the right.
fn matrix(x: &Shape, is_left: bool) -> Option<(&[usize], [usize; 2])> {
    match &**x {
        [] => None,
        [n] => Some((&[], if is_left { [1, *n] } else { [*n, 1] })),
        [batch @ .., rows, columns] => Some((batch, [*rows, *columns])),
    }
}

fn shape(lhs: &TensorMeta, rhs: &TensorMeta) -> Result<TensorMeta> {
    check::number("lhs", lhs)?;
    check::same_dtype(("lhs", lhs), ("rhs", rhs))?;
    let (Some((batch, [m, k])), Some((other_batch, [inner, n]))) =
        (matrix(&lhs.shape, true), matrix(&rhs.shape, false))
    else {
        return Err(Error::new(ErrorKind::Shape, "a matrix product needs at least one axis on either side")
            .with_fix("mul(&lhs, &rhs) multiplies by a number"));
    };
    if k != inner {
        let fix = if rhs.shape.last() == Some(&k) && rhs.shape.len() == 2 {
            "matmul(&lhs, &permute(&rhs, &[1, 0])?)"
        } else {
            "reshape or permute one of them so that the inner extents agree"
        };
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "inner extents differ: the last axis of lhs {} has {k}, the axis of rhs {} that meets it has {inner}",
                lhs.shape, rhs.shape
            ),
        )
        .with_fix(fix));
    }
    let batch = broadcast(batch, other_batch).ok_or_else(|| {
        Error::new(
            ErrorKind::Shape,
            format!(
                "batch axes {batch:?} of lhs and {other_batch:?} of rhs do not broadcast: aligned at the last one, extents must be equal or 1"
            ),
        )
        .with_fix("reshape(&rhs, ..) so that the batch axes line up")
    })?;
    let rows = (lhs.shape.len() > 1).then_some(m);
    let columns = (rhs.shape.len() > 1).then_some(n);
    Ok(TensorMeta::new(lhs.dtype, batch.iter().copied().chain(rows).chain(columns).collect::<Shape>()))
}

fn cases(cases: &mut Cases) {
    for (lhs, rhs) in [
        (&[4, 7][..], &[7, 5][..]),
        (&[2, 3, 4], &[2, 4, 5]),
        (&[5, 2, 4], &[2, 5, 4, 3]),
        (&[2, 1, 4, 6], &[1, 3, 6, 2]),
        (&[4, 6], &[2, 6, 3]),
        (&[3, 4, 5], &[5]),
        (&[6], &[6, 4]),
        (&[6], &[3, 6, 2]),
        (&[7], &[7]),
        (&[1, 1], &[1, 4]),
        (&[3, 0], &[0, 2]),
        (&[0, 3], &[3, 2]),
    ] {
        for dtype in [DType::F32, DType::I64] {
            cases.add([CaseOperand::new(dtype, lhs), CaseOperand::new(dtype, rhs)], matmul {});
        }
    }
    for dtype in [DType::F32, DType::I64].into_iter().flat_map(kin) {
        let operands = [&[4, 6][..], &[2, 6, 3]].map(|shape| CaseOperand::new(*dtype, shape));
        cases.add(operands, matmul {});
    }
}

/// The product of matrices `[.., m, k]` and `[.., k, n]`: `[.., m, n]`. Batch axes broadcast, aligned at the last of them.
/// A vector on the left is a row, on the right a column; its axis is gone from the result.
///
/// Splits of batch axes, of `m` and of `n` are kept. If `k` is split in both, each device multiplies what it holds and the
/// result is Partial. A Partial operand times a Replicated one stays Partial.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let a = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let b = Tensor::from_slice(&[1.0_f32, 10.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = matmul(&a, &b)?;
/// assert_eq!(y.layout().places(), [Partial(ReduceOp::Sum)]);
/// assert_eq!(y.to_vec::<f32>()?, [21.0, 43.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if inner extents differ, batch axes do not broadcast or an operand has no
/// axis, [`ErrorKind::DType`](crate::ErrorKind::DType) for two dtypes or truth values, else as every op.
#[sharding_rule(
    ["... m k, ... k n -> ... m n", "k, ... k n -> ... n", "... m k, k -> ... m", "k, k ->"],
    reduce(k = sum), linear(each), shape = shape, cases = cases
)]
pub fn matmul(cx: &mut KernelCx, lhs: &LocalArray, rhs: &LocalArray) -> Result<LocalArray> {
    let (left, right) = (lhs.shape().len(), rhs.shape().len());
    if left > 1 && right > 1 {
        return cx.last().dot(lhs, rhs);
    }
    // A vector becomes a matrix, and the axis it has too many goes again.
    let matrix_of = |cx: &mut KernelCx, x: &LocalArray, is_left: bool| match &**x.shape() {
        [n] => cx.reshape(x, &Shape::from(if is_left { [1, *n] } else { [*n, 1] })),
        _ => Ok(x.clone()),
    };
    let (a, b) = (matrix_of(cx, lhs, true)?, matrix_of(cx, rhs, false)?);
    let product = cx.last().dot(&a, &b)?;
    let rows = product.shape().len().saturating_sub(2);
    let product = if right == 1 { product.without(rows + 1) } else { product };
    Ok(if left == 1 { product.without(rows) } else { product })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn rows_come_as_batch_m_n_k_and_parts() {
        let rows =
            ["R R -> R", "S0 S0 -> S0", "S1 R -> S1", "R S2 -> S2", "S2 S1 -> P", "P R -> P", "R P -> P"];
        ask::check::<matmul>(&matmul {}, &[2], &[ask::f32s(&[4, 6, 8]), ask::f32s(&[4, 8, 2])], &rows);
        let rows = ["R R -> R", "S0 S0 -> P", "P R -> P", "R P -> P"];
        ask::check::<matmul>(&matmul {}, &[2], &[ask::f32s(&[8]), ask::f32s(&[8])], &rows);
    }

    #[test]
    fn batch_axes_are_aligned_at_the_last() {
        let rows = ask::rows::<matmul>(&matmul {}, &[2], &[ask::f32s(&[5, 4, 8]), ask::f32s(&[2, 5, 8, 6])])
            .unwrap();
        assert_eq!(&rows[1..3], ["R S0 -> S0", "S0 S1 -> S1"]);
        let rows =
            ask::rows::<matmul>(&matmul {}, &[2], &[ask::f32s(&[2, 1, 4, 8]), ask::f32s(&[1, 3, 8, 6])])
                .unwrap();
        assert_eq!(&rows[1..3], ["S0 R -> S0", "R S1 -> S1"]);
    }
}
