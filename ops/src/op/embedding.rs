//! Rows of a table by index.

use super::gather;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases, Fill};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Result, TensorMeta, sharding_rule};

/// As `gather` along axis 0: the table may be split along the vocabulary too.
fn rule(cx: &RuleCx<'_>) -> Result<Rows> {
    Ok(gather::rows(cx, 0))
}

fn shape(table: &TensorMeta, indices: &TensorMeta) -> Result<TensorMeta> {
    if table.shape.is_empty() {
        return Err(Error::new(ErrorKind::Shape, "a table has at least one axis")
            .with_fix("pass a table of shape [vocabulary, width]"));
    }
    gather::meta(("table", table), indices, 0)
}

fn cases(cases: &mut Cases) {
    for (table, indices) in [
        (&[7, 5][..], &[4][..]),
        (&[9, 2], &[3, 2]),
        (&[8, 2, 3], &[5]),
        (&[6], &[3, 1]),
        (&[5, 4], &[]),
        (&[1, 3], &[2]),
        (&[3, 4], &[0]),
    ] {
        let bound = table.first().copied().unwrap_or(1);
        let indices = CaseOperand::new(DType::I64, indices).with_fill(Fill::Below(bound));
        cases.add([CaseOperand::new(DType::F32, table), indices], embedding {});
    }
}

/// The rows of `table` `[vocabulary, w..]` at `indices` `[i..]`: `[i.., w..]`. Indices are i64 in `0..vocabulary`.
///
/// Splits of the width and of the indices are kept. If the vocabulary is split, each device looks up its own rows and has 0
/// for the rest, and the result is Partial: no device ever holds the whole table.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let table = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], [3, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let ids = Tensor::from_slice(&[2_i64, 0], [2], &DeviceMapping::replicated(&mesh))?;
/// let rows = embedding(&table, &ids)?;
/// assert_eq!(rows.layout().places(), [Partial(ReduceOp::Sum)]);
/// assert_eq!(rows.to_vec::<f32>()?, [4.0, 5.0, 0.0, 1.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// As [`gather`](fn@crate::gather).
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn embedding(cx: &mut KernelCx, table: &LocalArray, indices: &LocalArray) -> Result<LocalArray> {
    gather::take(cx, table, indices, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::Place;

    #[test]
    fn a_table_split_along_the_vocabulary_gives_parts() {
        let place = &[Place::Replicated][..];
        let operands = [(DType::F32, &[9, 4][..], place), (DType::I64, &[2, 3], place)];
        let rows = ["R R -> R", "S1 R -> S2", "R S0 -> S0", "R S1 -> S1", "S0 R -> P", "P R -> P"];
        ask::check::<embedding>(&embedding {}, &[2], &operands, &rows);
    }
}
