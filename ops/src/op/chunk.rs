//! A tensor cut in a number of pieces.

use super::split::{cut, exchange, metas, rows};
use crate::check;
use crate::split_sizes::{SplitSizes, countable};
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Result, Shards, StageCx, TensorMeta, sharding_rule};
use smallvec::SmallVec;

/// The sizes of at most `chunks` pieces, all of one size but the last.
fn sizes(axis: usize, extent: usize, chunks: usize) -> Result<SmallVec<[usize; 4]>> {
    if chunks == 0 {
        return Err(Error::new(ErrorKind::Argument, format!("axis {axis} cannot be cut in 0 pieces"))
            .with_fix("ask for at least one piece"));
    }
    if extent == 0 {
        countable(axis, chunks)?;
        return Ok(SmallVec::from_elem(0, chunks));
    }
    SplitSizes::Each(extent.div_ceil(chunks)).of(axis, extent)
}

fn rule(cx: &RuleCx<'_>, chunks: usize, axis: isize) -> Result<Rows> {
    let axis = check::operand_axis(cx, axis)?;
    Ok(rows(cx, axis, &sizes(axis, cx.extent(0, axis), chunks)?))
}

fn shape(x: &TensorMeta, chunks: usize, axis: isize) -> Result<Vec<TensorMeta>> {
    let axis = x.shape.axis(axis)?;
    Ok(metas(x, axis, &sizes(axis, x.shape.extent(axis), chunks)?))
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, chunks: usize, axis: isize) -> Result<Vec<Shards>> {
    let shape = cx.operand(0)?.shape();
    let axis = shape.axis(axis)?;
    exchange(cx, x, axis, &sizes(axis, shape.extent(axis), chunks)?)
}

fn cases(cases: &mut Cases) {
    for (shape, chunks, axis) in
        [(&[4, 6][..], 3, 1), (&[7, 5], 3, 0), (&[4, 3], 5, -1), (&[0, 2], 2, 0), (&[5], 1, 0)]
    {
        cases.add([CaseOperand::new(DType::F32, shape)], chunk { chunks, axis });
    }
}

/// `x` along `axis` (negative counts from the back) in `chunks` pieces of one size, the extent over `chunks` rounded up; the
/// last is smaller if that does not divide, and there are fewer pieces if the extent is used up before.
///
/// As `chunk` of PyTorch: 6 in 4 pieces gives 2, 2, 2. Placements and copies as of [`split`](fn@crate::split).
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5], [5], &DeviceMapping::replicated(&mesh))?;
/// let pieces = chunk(&x, 2, 0)?;
/// assert_eq!((pieces[0].to_vec::<i64>()?, pieces[1].to_vec::<i64>()?), (vec![1, 2, 3], vec![4, 5]));
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Axis`](crate::ErrorKind::Axis) for an axis that is not there,
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for no pieces, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
pub fn chunk(cx: &mut KernelCx, x: &LocalArray, chunks: usize, axis: isize) -> Result<Vec<LocalArray>> {
    let shape = cx.operand(0)?.shape();
    let axis = shape.axis(axis)?;
    cut(cx, x, axis, sizes(axis, shape.extent(axis), chunks)?.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn the_axis_that_is_cut_stays_whole() {
        let rows = ["R -> R R R", "S0 -> S0 S0 S0", "P -> P P P"];
        ask::check::<chunk>(&chunk { chunks: 3, axis: 1 }, &[2], &[ask::f32s(&[2, 7])], &rows);
    }

    #[test]
    fn pieces_are_of_one_size_but_the_last() {
        let of = |extent, chunks| sizes(0, extent, chunks).unwrap().to_vec();
        assert_eq!(of(7, 3), [3, 3, 1]);
        assert_eq!(of(6, 4), [2, 2, 2]);
        assert_eq!(of(2, 5), [1, 1]);
        assert_eq!(of(0, 3), [0, 0, 0]);
        assert_eq!(sizes(0, 4, 0).unwrap_err().kind(), ErrorKind::Argument);
    }
}
