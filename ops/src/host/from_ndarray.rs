//! Arrays of ndarray as host data: as they lie where that can be said without copying, else read where they are.

use super::HostSource;
use ndarray::{
    ArcArray, Array, ArrayBase, ArrayView, ArrayViewD, Axis, CowArray, Data, Dimension, IxDyn, OwnedArcRepr,
    Slice,
};
use sharding_core::backend::HostMemory;
use sharding_core::{Element, HostData, Region, Result};
use std::sync::Arc;

impl<'a, T: Element, D: Dimension> HostSource<'a> for ArrayView<'a, T, D> {
    fn host_data(self) -> Result<HostData<'a>> {
        let (shape, strides, offset) = (self.shape().to_vec(), self.strides().to_vec(), offset(&self));
        match self.clone().to_slice_memory_order() {
            Some(elements) => {
                HostData::borrowed(elements, [elements.len()])?.with_strides(shape, &strides, offset)
            }
            None => {
                let view = self.into_dyn();
                HostData::pieces(T::DTYPE, shape, move |region, bytes| read(view.clone(), region, bytes))
            }
        }
    }
}

impl<'a, T: Element, S: Data<Elem = T>, D: Dimension> HostSource<'a> for &'a ArrayBase<S, D> {
    fn host_data(self) -> Result<HostData<'a>> {
        self.view().host_data()
    }
}

impl<T: Element, D: Dimension> HostSource<'static> for Array<T, D> {
    fn host_data(self) -> Result<HostData<'static>> {
        self.into_shared().host_data()
    }
}

impl<T: Element, D: Dimension> HostSource<'static> for ArcArray<T, D> {
    fn host_data(self) -> Result<HostData<'static>> {
        let (shape, strides, offset) = (self.shape().to_vec(), self.strides().to_vec(), offset(&self.view()));
        let owned = self.into_dyn();
        match owned.as_slice_memory_order().map(<[T]>::len) {
            Some(elements) => HostData::shared(T::DTYPE, [elements], Arc::new(Owned(owned)))?
                .with_strides(shape, &strides, offset),
            None => HostData::pieces(T::DTYPE, shape, move |region, bytes| read(owned.view(), region, bytes)),
        }
    }
}

/// An array whose elements lie together.
struct Owned<T>(ArrayBase<OwnedArcRepr<T>, IxDyn>);

impl<T: Element> HostMemory for Owned<T> {
    fn bytes(&self) -> &[u8] {
        self.0.as_slice_memory_order().map_or(&[], T::as_bytes)
    }
}

/// How far after the first element in memory that at index 0 lies: negative strides count from there.
fn offset<T, D: Dimension>(view: &ArrayView<'_, T, D>) -> usize {
    let back = view.shape().iter().zip(view.strides());
    back.map(
        |(extent, stride)| if *stride < 0 { extent.saturating_sub(1) * stride.unsigned_abs() } else { 0 },
    )
    .sum()
}

/// Writes the elements of a region, row-major.
fn read<T: Element>(view: ArrayViewD<'_, T>, region: &Region, bytes: &mut [u8]) {
    let mut part: CowArray<'_, T, IxDyn> = view.into();
    for (axis, ranges) in region.iter().enumerate() {
        match ranges.as_slice() {
            [one] => part.slice_axis_inplace(Axis(axis), Slice::from(one.clone())),
            several => {
                let indices: Vec<usize> = several.iter().cloned().flatten().collect();
                part = part.select(Axis(axis), &indices).into();
            }
        }
    }
    for (slot, value) in bytes.chunks_exact_mut(T::DTYPE.size()).zip(part.iter()) {
        slot.copy_from_slice(T::as_bytes(std::slice::from_ref(value)));
    }
}
