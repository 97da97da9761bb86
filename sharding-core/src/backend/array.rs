//! Local arrays: the shards that a process can address.

use crate::{DType, Device, Shape};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A buffer of a backend.
///
/// Its memory is freed when it is dropped; the bytes alive on a device are the sum over its storages.
pub trait Storage: Any + Send + Sync {
    /// The device that holds it.
    fn device(&self) -> Device;
    /// Its size in bytes.
    fn bytes(&self) -> usize;
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;
    /// For the backend that made it, while nobody else reads it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// dtype, shape, strides and offset (in elements) of a local array.
#[derive(Debug, PartialEq, Eq)]
pub struct LocalMeta {
    /// The element type.
    pub dtype: DType,
    /// The local shape.
    pub shape: Shape,
    /// Elements per step on each axis.
    pub strides: SmallVec<[isize; 4]>,
    /// The element at index 0.
    pub offset: usize,
}

/// Copies of memory, as the clone of a [`Shape`]: kernels and collectives clone views all the time.
impl Clone for LocalMeta {
    fn clone(&self) -> Self {
        Self {
            dtype: self.dtype,
            shape: self.shape.clone(),
            strides: SmallVec::from_slice(&self.strides),
            offset: self.offset,
        }
    }
}

impl LocalMeta {
    /// Row-major from offset 0.
    #[inline]
    pub fn contiguous(dtype: DType, shape: Shape) -> Self {
        let strides = shape.strides();
        Self { dtype, shape, strides, offset: 0 }
    }
    /// The elements of a storage that it reaches, from the first to the last: empty if it has no element, `None` if one lies
    /// before the storage, or beyond what can be counted.
    #[inline]
    pub fn span(&self) -> Option<std::ops::Range<usize>> {
        if self.shape.contains(&0) {
            return Some(0..0);
        }
        let (mut low, mut high) = (isize::try_from(self.offset).ok()?, isize::try_from(self.offset).ok()?);
        for (extent, stride) in self.shape.iter().zip(&self.strides) {
            let reach = stride.checked_mul(isize::try_from(*extent).ok()? - 1)?;
            let end = if reach < 0 { &mut low } else { &mut high };
            *end = end.checked_add(reach)?;
        }
        Some(usize::try_from(low).ok()?..usize::try_from(high).ok()?.checked_add(1)?)
    }
    /// Whether elements lie in row-major order without gaps (the offset may be anything).
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (extent, stride) in self.shape.iter().zip(&self.strides).rev() {
            if *extent != 1 && *stride != step {
                return self.shape.contains(&0);
            }
            step *= *extent as isize;
        }
        true
    }
}

/// A strided view of a shared [`Storage`]. Views are free: slicing, permuting and broadcasting copy nothing.
#[derive(Clone)]
pub struct LocalArray {
    meta: LocalMeta,
    storage: Arc<dyn Storage>,
}

/// The local arrays of one tensor, in the order of the positions that the process addresses.
pub type LocalArrays = SmallVec<[LocalArray; 2]>;

impl LocalArray {
    /// For backends: an array over a storage that holds every element of `meta`.
    pub fn new(meta: LocalMeta, storage: Arc<dyn Storage>) -> Self {
        Self { meta, storage }
    }
    /// dtype, shape, strides and offset.
    #[inline]
    pub fn meta(&self) -> &LocalMeta {
        &self.meta
    }
    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.meta.dtype
    }
    /// The local shape.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.meta.shape
    }
    /// The number of elements.
    #[inline]
    pub fn elements(&self) -> usize {
        self.meta.shape.elements()
    }
    /// Bytes of the elements (not of the storage, which may be larger).
    pub fn bytes(&self) -> usize {
        self.elements() * self.meta.dtype.size()
    }
    /// The shared storage.
    #[inline]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }
    /// For backends: the storage, to be written where nobody else reads it.
    #[inline]
    pub fn storage_mut(&mut self) -> &mut Arc<dyn Storage> {
        &mut self.storage
    }
    /// The device that holds the storage.
    pub fn device(&self) -> Device {
        self.storage.device()
    }
    /// Whether both are the same elements of one storage: equal without looking at the data.
    #[inline]
    pub fn same_as(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.storage), Arc::as_ptr(&other.storage)) && self.meta == other.meta
    }
    /// Whether elements lie in row-major order without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.meta.is_contiguous()
    }

    /// Whether several indices name one element, as after a broadcast: such an array is not written.
    pub fn repeats(&self) -> bool {
        let repeated = |(extent, stride): (&usize, &isize)| *extent > 1 && *stride == 0;
        !self.shape().contains(&0) && self.shape().iter().zip(&self.meta.strides).any(repeated)
    }

    /// The view of `len` elements of `axis` from `start`; nothing outside the array is reached.
    #[must_use]
    pub fn slice(&self, axis: usize, start: usize, len: usize) -> Self {
        let mut view = self.clone();
        let extent = self.shape().extent(axis);
        let start = start.min(extent);
        let stride = self.meta.strides.get(axis).copied().unwrap_or(0);
        if let Some(slot) = view.meta.shape.get_mut(axis) {
            *slot = len.min(extent - start);
        }
        // An offset beyond the last element may leave the storage; empty views stay where they are.
        if view.elements() > 0 {
            view.meta.offset = view.meta.offset.saturating_add_signed(stride * start as isize);
        }
        view
    }

    /// The view whose axis `i` is this one's axis `axes[i]`; `axes` must be a permutation.
    #[must_use]
    pub fn permute(&self, axes: &[usize]) -> Self {
        let mut view = self.clone();
        view.meta.shape = axes.iter().map(|axis| self.shape().extent(*axis)).collect();
        view.meta.strides =
            axes.iter().map(|axis| self.meta.strides.get(*axis).copied().unwrap_or(0)).collect();
        view
    }

    /// The view without an axis: its first element. An axis of extent 1 is dropped so; one that is not there changes
    /// nothing.
    #[must_use]
    pub fn without(&self, axis: usize) -> Self {
        let mut view = self.clone();
        if axis < view.meta.strides.len() {
            view.meta.shape = self.shape().without(axis);
            view.meta.strides.remove(axis);
        }
        view
    }

    /// The same elements under another shape, where no copy is needed: the array is contiguous and the number of
    /// elements agrees. `None` otherwise.
    pub fn reshaped(&self, shape: &Shape) -> Option<Self> {
        if !self.is_contiguous() || shape.elements() != self.elements() {
            return None;
        }
        let meta = LocalMeta {
            dtype: self.dtype(),
            shape: shape.clone(),
            strides: shape.strides(),
            offset: self.meta.offset,
        };
        Some(Self { meta, storage: self.storage.clone() })
    }

    /// The view broadcast to `shape` (aligned at the last axis) with strides of 0; `None` where it does not fit.
    pub fn broadcast_to(&self, shape: &Shape) -> Option<Self> {
        let lead = shape.len().checked_sub(self.shape().len())?;
        let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(0, shape.len());
        for ((slot, extent), (have, stride)) in
            strides.iter_mut().zip(shape.iter()).skip(lead).zip(self.shape().iter().zip(&self.meta.strides))
        {
            if have == extent {
                *slot = *stride;
            } else if *have != 1 {
                return None;
            }
        }
        let meta = LocalMeta { dtype: self.dtype(), shape: shape.clone(), strides, offset: self.meta.offset };
        Some(Self { meta, storage: self.storage.clone() })
    }
}

impl fmt::Debug for LocalArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalArray({}{} on {})", self.dtype(), self.shape(), self.device())
    }
}
