//! A part of a tensor.

use crate::index::{Index, Taken, resolve, result_axis, taken_shape};
use crate::{exchanged, row};
use sharding_core::backend::{IndexMap, LocalArray};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, KernelCx, Result, Shape, Shards, StageCx, TensorMeta, sharding_rule};
use smallvec::SmallVec;

/// Axes that are taken whole keep their split. Of a split axis of which a part is taken every device gets its share, or all of
/// it where that is too little to share.
fn rule(cx: &RuleCx<'_>, indices: &[Index]) -> Result<Rows> {
    let Some(x) = cx.operands.first() else { return Ok(Rows::new()) };
    let taken = resolve(&x.meta.shape, indices)?;
    let whole = |axis: usize| taken.get(axis).is_some_and(|own| own.is_whole(x.meta.shape.extent(axis)));
    let mut rows = row::movement_rows(cx, |axis| if whole(axis) { result_axis(&taken, axis) } else { None });
    if let Some(axis) = cx.place(0).tensor_axis().filter(|axis| !whole(*axis)) {
        let to = exchanged::split_or_whole(cx, axis, 0, result_axis(&taken, axis));
        exchanged::add_row(cx, &mut rows, [cx.place(0)], &[(map(&x.meta.shape, &taken), to)]);
    }
    Ok(rows)
}

/// What is taken, by global indices; the axes of single indices are gone.
fn map(shape: &Shape, taken: &[Taken]) -> IndexMap {
    let starts: SmallVec<[usize; 4]> = taken.iter().map(|axis| axis.start).collect();
    let steps: SmallVec<[isize; 4]> = taken.iter().map(|axis| axis.step).collect();
    let kept: Shape = taken.iter().map(|axis| axis.len).collect();
    let mut map = IndexMap::slice(shape, &starts, &steps, &kept);
    for axis in taken.iter().enumerate().filter(|(_, axis)| axis.dropped).map(|(axis, _)| axis).rev() {
        map.shape = map.shape.without(axis);
        for piece in &mut map.pieces {
            piece.into.remove(axis);
            piece.strides.remove(axis);
        }
    }
    map
}

fn stages(cx: &mut StageCx<'_>, x: &Shards, indices: &[Index]) -> Result<Shards> {
    let shape = cx.operand(0)?.shape();
    cx.exchange(&map(shape, &resolve(shape, indices)?), 0, std::slice::from_ref(x))
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
/// Axes taken whole keep their split. Of a split axis of which a part is taken every device gets its balanced share: only what
/// it does not hold moves. A part that is too short for that, and the one index of [`Index::At`], goes to all devices. On an
/// explicit mesh axis, where no op communicates, the axis is to be gathered by hand.
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
#[sharding_rule(rule = rule, shape = shape, cases = cases, stages = stages)]
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

    #[test]
    fn what_moves_inside_the_op_is_seen() {
        use sharding_core::trace::explain;
        use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Tensor};
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
        let rows = DeviceMapping::new(&mesh, [Place::Sharded(0)]).unwrap();
        let x = Tensor::from_slice(&[1.0_f32; 24], [8, 3], &rows).unwrap();
        let moved = |range: std::ops::Range<isize>| {
            let report = explain(|| slice(&x, &[Index::from(range)]).unwrap()).report;
            report
                .steps
                .iter()
                .map(|step| (step.kind.name(), step.axes.join(","), step.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(moved(0..6), [("permute", "tp".to_owned(), 12.0)]);
        assert_eq!(moved(1..7), [("local_slice", "tp".to_owned(), 0.0)]);
    }

    #[test]
    fn of_a_part_of_a_split_axis_only_what_is_elsewhere_moves() {
        let x: ask::Placed<'_> = (DType::F32, &[8, 3], &[Place::Sharded(0)]);
        let check = |index: Index, want: &str| {
            let rows = if index == Index::At(5) { "S1 -> S0" } else { "S1 -> S1" };
            let args = slice { indices: [index][..].into() };
            ask::check::<slice>(&args, &[2], &[x], &["R -> R", rows, "P -> P", want]);
        };
        // Rows 1..7: device 0 gets 1, 2, 3, device 1 the others; both have them. Of rows 0..6 row 3 changes its device.
        check(Index::from(1..7), "S0 -> S0 +permute of 0");
        check(Index::from(0..6), "S0 -> S0 +permute of 12");
        check(Index::ALL.step(-1), "S0 -> S0 +permute of 48");
        check(Index::from(2..3), "S0 -> R +permute of 12");
        check(Index::At(5), "S0 -> R +permute of 12");
    }
}
