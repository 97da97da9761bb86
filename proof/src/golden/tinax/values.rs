//! Elements that tell where they come from, and whether every device has those that its index ranges say.

use sharding_core::{DType, Error, ErrorKind, HostCopy, HostData, Result, Shape, Shard, Tensor};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// As many elements, as bytes: each its own number in little-endian order, cut to the size of the dtype. Truth values
/// have too few of them: they are the parity of the number's bits, which no period repeats.
pub(super) fn iota(dtype: DType, elements: usize) -> Vec<u8> {
    let element = |i: usize| match dtype {
        DType::Bool => vec![(i.count_ones() & 1) as u8],
        _ => (i as u64).to_le_bytes().into_iter().take(dtype.size()).collect(),
    };
    (0..elements).flat_map(element).collect()
}

/// Host data of these bytes: borrowed if they are to be copied, and memory that it owns if that may be kept.
pub(super) fn host<'a>(dtype: DType, shape: &Shape, bytes: &'a [u8], copy: HostCopy) -> Result<HostData<'a>> {
    match copy {
        HostCopy::Always => HostData::from_bytes(dtype, shape, bytes),
        HostCopy::WhereNeeded => HostData::shared(dtype, shape, Arc::new(bytes.to_vec())),
    }
}

/// Compares what every device of this process holds with `source`, row-major elements of the shape `local`, at its index
/// ranges. On a tensor axis where that is not the whole, it has the indices that the process holds, in ascending order.
///
/// # Errors
/// [`ErrorKind::Internal`] where a device holds anything else: no case wants that.
pub(super) fn check(x: &Tensor, local: &Shape, source: &[u8]) -> Result<()> {
    let axes = || local.iter().zip(x.shape().iter()).enumerate();
    let held: Vec<Option<BTreeSet<usize>>> = axes()
        .map(|(axis, (mine, whole))| {
            (mine != whole).then(|| x.addressable_shards().flat_map(|s| along(&s, axis)).collect())
        })
        .collect();
    let at = |axis: usize, index: usize| match held.get(axis) {
        Some(Some(held)) => held.iter().position(|other| *other == index),
        _ => Some(index),
    };
    let size = x.dtype().size();
    for shard in x.addressable_shards() {
        // The places of its elements in the source, row-major.
        let places = axes().try_fold(vec![0], |places, (axis, (extent, _))| {
            let own: Option<Vec<usize>> =
                along(&shard, axis).into_iter().map(|index| at(axis, index)).collect();
            let own = own?;
            Some(
                places
                    .iter()
                    .flat_map(|place| own.iter().map(move |i| place * extent + i))
                    .collect::<Vec<usize>>(),
            )
        });
        let wanted = places.and_then(|places| {
            places.iter().map(|i| source.get(i * size..(i + 1) * size)).collect::<Option<Vec<&[u8]>>>()
        });
        let got = elements(&shard)?;
        if wanted.as_ref().map(|wanted| wanted.concat()).as_deref() != Some(&*got) {
            let what = format!("{} holds {got:?}, and its part of the source is {wanted:?}", shard.device());
            return Err(Error::new(ErrorKind::Internal, what));
        }
    }
    Ok(())
}

/// The indices that a shard holds on a tensor axis.
fn along(shard: &Shard<'_>, axis: usize) -> Vec<usize> {
    shard.index().get(axis).into_iter().flatten().cloned().flatten().collect()
}

/// The bytes of a shard's elements, row-major.
fn elements<'a>(shard: &Shard<'a>) -> Result<Cow<'a, [u8]>> {
    let unseen = || Error::new(ErrorKind::Internal, format!("{} hides what it holds", shard.device()));
    let view = shard.host_view()?.ok_or_else(unseen)?;
    let bytes = view.borrowed_memory().ok_or_else(unseen)?;
    let (meta, size) = (view.meta(), view.dtype().size());
    let starts = meta.shape.iter().zip(meta.strides.iter()).fold(
        vec![meta.offset as isize],
        |starts, (extent, stride)| {
            starts.iter().flat_map(|start| (0..*extent as isize).map(move |i| start + i * *stride)).collect()
        },
    );
    let element = |start: &isize| {
        let start = usize::try_from(*start).ok()? * size;
        bytes.get(start..start + size)
    };
    let elements: Option<Vec<&[u8]>> = starts.iter().map(element).collect();
    Ok(Cow::Owned(elements.ok_or_else(unseen)?.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_core::{BackendKind, DeviceMesh, NamedSharding, spec};

    #[test]
    fn elements_of_another_place_are_seen() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["x", "y"]).unwrap();
        let sharding = NamedSharding::new(&mesh, spec!["y", "x"]).unwrap();
        let shape = Shape::from([4, 6]);
        for dtype in [DType::Bool, DType::I8, DType::BF16, DType::F32, DType::I64] {
            for copy in [HostCopy::Always, HostCopy::WhereNeeded] {
                let source = iota(dtype, 24);
                let data = host(dtype, &shape, &source, copy).unwrap();
                let x = Tensor::place_host_array(&data, &sharding, copy).unwrap();
                check(&x, &shape, &source).unwrap();
                // One element more at the front: all others stand one place on.
                let shifted = [&source[source.len() - dtype.size()..], &source].concat();
                assert_eq!(check(&x, &shape, &shifted).unwrap_err().kind(), ErrorKind::Internal);
                assert!(check(&x, &shape, &source[..source.len() - 1]).is_err());
            }
        }
    }
}
