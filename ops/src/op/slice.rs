//! A part of a tensor.

use crate::index::{Index, Taken, resolve, result_axis, taken_shape};
use crate::row;
use sharding_core::backend::{IndexMap, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Result, Shape, TensorMeta, sharding_rule};
use smallvec::SmallVec;

/// Axes that are taken whole keep their split; a device cannot know which part of a range is its own without moving data.
fn rule(cx: &RuleCx<'_>, indices: &[Index]) -> Result<Rows> {
    let Some(x) = cx.operands.first() else { return Ok(Rows::new()) };
    let taken = resolve(&x.meta.shape, indices)?;
    Ok(row::movement_rows(cx, |axis| {
        let whole = taken.get(axis)?.is_whole(x.meta.shape.extent(axis));
        whole.then(|| result_axis(&taken, axis)).flatten()
    }))
}

fn shape(x: &TensorMeta, indices: &[Index]) -> Result<TensorMeta> {
    Ok(TensorMeta::new(x.dtype, taken_shape(&resolve(&x.shape, indices)?)))
}

fn cases(cases: &mut Cases) {
    let (all, at) = (Index::ALL, Index::At);
    for (shape, indices) in [
        (&[7, 5][..], vec![Index::from(1..4)]),
        (&[7, 5], vec![all, at(-1)]),
        (&[7, 5], vec![at(2), all]),
        (&[2, 9, 3], vec![all, Index::from(1..8).step(3), at(0)]),
        (&[4, 6], vec![Index::Ellipsis, all.step(-1)]),
        (&[5, 6], vec![Index::from(3..3), all]),
        (&[1, 3], vec![at(0)]),
        (&[0, 3], vec![all, Index::from(1..)]),
        (&[6], vec![Index::from(-4..-1)]),
        (&[6, 2], vec![]),
    ] {
        cases.add([CaseOperand::new(DType::F32, shape)], slice { indices: indices.into() });
    }
}

/// What `indices` take of each axis of `x`, from the first; axes that are not named are whole. Ranges with steps, also
/// backwards, and single indices, which drop their axis; negative numbers count from the back. See [`Index`] and
/// [`index!`](crate::index).
///
/// Axes taken whole keep their split; a split axis of which a part is taken is gathered first.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4, 5, 6], [2, 3], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = slice(&x, &index![.., 1..])?;
/// assert_eq!(y.mapping(), x.mapping());
/// assert_eq!(y.to_vec::<i64>()?, [2, 3, 5, 6]);
/// assert_eq!(slice(&x, &index![-1])?.to_vec::<i64>()?, [4, 5, 6]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for more indices than axes, a single index that is not there, or a
/// step of 0, else as every op.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn slice(cx: &mut KernelCx, x: &LocalArray, indices: &[Index]) -> Result<LocalArray> {
    // Axes of which a part is taken are whole here, so global indices are local ones; whole axes are whole locally.
    let global = cx.operand(0)?.shape();
    let mut taken = resolve(global, indices)?;
    for (axis, own) in taken.iter_mut().enumerate() {
        if own.is_whole(global.extent(axis)) {
            own.len = x.shape().extent(axis);
        }
    }
    let kept: Shape = taken.iter().map(|axis| axis.len).collect();
    let part = if taken.iter().all(|axis| axis.step == 1) {
        view(x, &taken)
    } else {
        let starts: SmallVec<[usize; 4]> = taken.iter().map(|axis| axis.start).collect();
        let steps: SmallVec<[isize; 4]> = taken.iter().map(|axis| axis.step).collect();
        cx.copy(IndexMap::slice(x.shape(), &starts, &steps, &kept), &[x])?
    };
    let dropped = taken.iter().enumerate().filter(|(_, axis)| axis.dropped).map(|(axis, _)| axis).rev();
    Ok(dropped.fold(part, |part, axis| part.without(axis)))
}

/// A part by steps of 1: a view.
fn view(x: &LocalArray, taken: &[Taken]) -> LocalArray {
    taken.iter().enumerate().fold(x.clone(), |part, (axis, own)| part.slice(axis, own.start, own.len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use sharding_core::Place;

    #[test]
    fn whole_axes_keep_their_split_and_dropped_ones_renumber_them() {
        let x: ask::Placed<'_> = (DType::F32, &[2, 3, 4], &[Place::Replicated]);
        let indices = [Index::At(0), Index::from(0..3), Index::from(1..)][..].into();
        ask::check::<slice>(&slice { indices }, &[2], &[x], &["R -> R", "S1 -> S0", "P -> P"]);
    }
}
