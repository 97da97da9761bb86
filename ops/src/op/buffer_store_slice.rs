//! Writing a part of a buffer.

use crate::check;
use crate::index::{Index, Taken, resolve, result_axis, taken_shape};
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::Ranges;
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Place, Result, Shape, TensorMeta, sharding_rule};
use smallvec::SmallVec;

/// Nothing moves. Each device writes those elements of the source that fall into its part of the destination, so where the
/// destination is split the source may be Replicated. It may be split alike on an axis that is stored whole, then on all
/// mesh axes that split the destination there: they are one split, and a coarser one has other borders.
fn rule(cx: &RuleCx<'_>, indices: &[Index]) -> Result<Rows> {
    let mut rows = Rows::new();
    let [destination, source] = cx.operands else { return Ok(rows) };
    let taken = resolve(&destination.meta.shape, indices)?;
    let (to, from) = (cx.place(0), cx.place(1));
    // The same split, on the source's axis, where the axis is stored whole.
    let alike = |to: Place| match to.tensor_axis() {
        Some(axis) => taken
            .get(axis)
            .filter(|own| own.is_whole(destination.meta.shape.extent(axis)))
            .and_then(|_| result_axis(&taken, axis))
            .map(|axis| to.on_axis(axis)),
        None => Some(to),
    };
    let everywhere = |fits: &dyn Fn(Place, Place) -> bool| {
        let pairs = || destination.places.iter().zip(&source.places).map(|(to, from)| (*to, *from));
        pairs().filter(|(other, _)| other.tensor_axis() == to.tensor_axis()).all(|(to, from)| fits(to, from))
    };
    let fits = if from == Place::Unknown || to == Place::Unknown {
        true
    } else if to.tensor_axis().is_some() {
        everywhere(&|_, from| from == Place::Replicated) || everywhere(&|to, from| alike(to) == Some(from))
    } else {
        from == to
    };
    if !fits {
        let wanted = match (to.tensor_axis(), alike(to)) {
            (Some(_), None) => "Replicated".to_owned(),
            (Some(_), Some(alike)) => {
                format!(
                    "Replicated, or {alike} like the destination on every mesh axis that splits it there,"
                )
            }
            _ => to.to_string(),
        };
        let example = if to.is_partial() { to } else { Place::Replicated };
        return Err(Error::new(
            ErrorKind::Sharding,
            format!("the source is placed {from}; into this part of a destination placed {to} only a source placed {wanted} can be stored, and this op never moves its inputs"),
        )
        .with_fix(format!("place the source {example} on this mesh axis first, by source.transfer_to(..)")));
    }
    rows.add([to, from], []);
    Ok(rows)
}

fn shape(destination: &TensorMeta, source: &TensorMeta, indices: &[Index]) -> Result<()> {
    check::same_dtype(("destination", destination), ("source", source))?;
    let taken = resolve(&destination.shape, indices)?;
    if let Some((axis, stepped)) = taken.iter().enumerate().find(|(_, own)| own.step != 1) {
        return Err(Error::new(
            ErrorKind::Argument,
            format!(
                "axis {axis} is stored into by a step of {}; only steps of 1 can be stored",
                stepped.step
            ),
        )
        .with_fix("store each element on its own, or the whole range"));
    }
    let wanted = taken_shape(&taken);
    if source.shape != wanted {
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "the part of the destination {} has the shape {wanted}, the source {}",
                destination.shape, source.shape
            ),
        )
        .with_fix(format!("reshape or slice the source to {wanted}")));
    }
    Ok(())
}

fn cases(cases: &mut Cases) {
    let (all, at) = (Index::ALL, Index::At);
    for (destination, source, indices) in [
        (&[8, 4][..], &[2, 4][..], vec![Index::from(2..4)]),
        (&[8, 4], &[4], vec![at(5)]),
        (&[5, 7], &[5, 3], vec![all, Index::from(-4..-1)]),
        (&[5, 7], &[2], vec![Index::from(1..3), at(-1)]),
        (&[6], &[0], vec![Index::from(3..3)]),
        (&[3, 2], &[3, 2], vec![]),
    ] {
        let operands = [CaseOperand::new(DType::F32, destination), CaseOperand::new(DType::F32, source)];
        cases.add(operands, buffer_store_slice { indices: indices.into() });
    }
}

/// Where the elements of one axis that a device holds of the source go in its part of the destination: start in the local
/// source, start in the local destination, number.
fn overlaps(own: &Taken, source: &Ranges, destination: &Ranges) -> SmallVec<[(usize, usize, usize); 1]> {
    let mut overlaps = SmallVec::new();
    let mut from = 0;
    for source in source {
        let (start, end) = (source.start + own.start, source.end + own.start);
        let mut to = 0;
        for held in destination {
            let (low, high) = (start.max(held.start), end.min(held.end));
            if low < high {
                overlaps.push((from + low - start, to + low - held.start, high - low));
            }
            to += held.len();
        }
        from += source.len();
    }
    overlaps
}

/// Writes `source` into the part of `destination` that `indices` name, in place; indices are global, as in
/// [`slice`](fn@crate::slice), with steps of 1.
///
/// Nothing moves: each device writes what falls into its part. So a Replicated source goes into any destination that is
/// split, and a split source where its axis is stored whole.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let mut cache = TensorBuffer::new(full([4], 0_i64, DType::I64, &DeviceMapping::new(&mesh, [Sharded(0)])?)?);
/// let new = Tensor::from_slice(&[7_i64, 8], [2], &DeviceMapping::replicated(&mesh))?;
/// buffer_store_slice(&mut cache, &new, &index![1..3])?;
/// assert_eq!(cache.to_tensor().to_vec::<i64>()?, [0, 7, 8, 0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Sharding`](crate::ErrorKind::Sharding) if the source lies so that elements would have to move,
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape), [`ErrorKind::DType`](crate::ErrorKind::DType) or
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) if the parts do not fit.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn buffer_store_slice(
    cx: &mut KernelCx,
    destination: &mut LocalArray,
    source: &LocalArray,
    indices: &[Index],
) -> Result<()> {
    let taken = resolve(cx.operand(0)?.shape(), indices)?;
    let (held, mut given) = (cx.operand_region(0)?, cx.operand_region(1)?);
    // The source lacks the axes of single indices; a view or a cheap copy has them again, with extent 1.
    let mut shape: SmallVec<[usize; 4]> = SmallVec::from_slice(source.shape());
    for (axis, _) in taken.iter().enumerate().filter(|(_, own)| own.dropped) {
        shape.insert(axis.min(shape.len()), 1);
        given.insert(axis.min(given.len()), std::iter::once(0..1).collect());
    }
    let source = cx.reshape(source, &Shape::from(shape.as_slice()))?;
    let mut pieces: Vec<(LocalArray, SmallVec<[usize; 4]>)> = vec![(source, SmallVec::new())];
    for (axis, own) in taken.iter().enumerate() {
        let (Some(held), Some(given)) = (held.get(axis), given.get(axis)) else { continue };
        let overlaps = overlaps(own, given, held);
        pieces = pieces
            .iter()
            .flat_map(|(piece, at)| {
                overlaps.iter().map(move |(from, to, len)| {
                    let mut at = at.clone();
                    at.push(*to);
                    (piece.slice(axis, *from, *len), at)
                })
            })
            .collect();
    }
    pieces.iter().try_for_each(|(piece, at)| cx.store(destination, piece, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn nothing_moves() {
        let store = |to: &[Place], from: &[Place], index| {
            let operands = [(DType::F32, &[8, 4][..], to), (DType::F32, &[2, 4], from)];
            ask::rows::<buffer_store_slice>(
                &buffer_store_slice { indices: [index][..].into() },
                &[2, 2],
                &operands,
            )
        };
        let (r, p, s0, s1) = (Place::Replicated, Place::PARTIAL, Place::Sharded(0), Place::Sharded(1));
        let index = || Index::from(2..4);
        assert_eq!(store(&[s0, r], &[r, r], index()).unwrap(), ["S0 R -> "]);
        assert_eq!(store(&[s1, r], &[s1, r], index()).unwrap(), ["S1 S1 -> "]);
        assert_eq!(store(&[p, r], &[p, r], index()).unwrap(), ["P P -> "]);
        for (to, from) in
            [([s0, r], [s0, r]), ([r, r], [s0, r]), ([s1, s1], [s1, r]), ([p, r], [r, r]), ([r, r], [p, r])]
        {
            assert_eq!(
                store(&to, &from, index()).unwrap_err().kind(),
                ErrorKind::Sharding,
                "{to:?} {from:?}"
            );
        }
    }
}
