//! Arrays in host memory.

use crate::backend::{HostMemory, LocalMeta, bytes_of};
use crate::dispatch::guarded;
use crate::{DType, Element, Error, ErrorKind, Region, Result, Shape};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// An array in host memory, borrowed or owned, of any strides: what tensors are made from, and what they are read as.
///
/// Only owned memory can be used as it is ([`HostCopy::WhereNeeded`](crate::HostCopy::WhereNeeded)); what is borrowed is
/// copied, piece by piece, onto the devices.
///
/// ```
/// use sharding_core::HostData;
/// let columns = HostData::borrowed(&[1_i64, 2, 3, 4, 5, 6], [6])?.with_strides([2, 3], &[1, 2], 0)?;
/// assert_eq!(columns.to_vec::<i64>()?, [1, 3, 5, 2, 4, 6]);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone)]
pub struct HostData<'a> {
    meta: LocalMeta,
    memory: Memory<'a>,
}

type Fill<'a> = Arc<dyn Fn(&Region, &mut [u8]) + 'a>;

#[derive(Clone)]
enum Memory<'a> {
    Borrowed(&'a [u8]),
    Shared(Arc<dyn HostMemory>),
    Pieces(Fill<'a>),
}

impl<'a> HostData<'a> {
    /// Row-major elements of somebody else.
    ///
    /// # Errors
    /// As [`Shape::new`], and [`ErrorKind::Shape`] if there is not one value per element.
    pub fn borrowed<T: Element>(values: &'a [T], shape: impl Into<Shape>) -> Result<Self> {
        Self::new(T::DTYPE, shape, Memory::Borrowed(T::as_bytes(values)))
    }

    /// Row-major elements as bytes in native order, of any alignment.
    ///
    /// # Errors
    /// As [`HostData::borrowed`].
    pub fn from_bytes(dtype: DType, shape: impl Into<Shape>, bytes: &'a [u8]) -> Result<Self> {
        Self::new(dtype, shape, Memory::Borrowed(bytes))
    }

    /// Row-major elements that it owns.
    ///
    /// # Errors
    /// As [`HostData::borrowed`].
    pub fn owned<T: Element>(values: Vec<T>, shape: impl Into<Shape>) -> Result<Self> {
        Self::shared(T::DTYPE, shape, Arc::new(values))
    }

    /// Row-major elements whose memory it owns together with others. Nobody can change it meanwhile: that is what
    /// [`HostMemory`] promises.
    ///
    /// # Errors
    /// As [`HostData::borrowed`].
    pub fn shared(dtype: DType, shape: impl Into<Shape>, memory: Arc<dyn HostMemory>) -> Result<Self> {
        Self::new(dtype, shape, Memory::Shared(memory))
    }

    /// Row-major elements in a part of somebody's bytes: a tensor in a file that is held or mapped as a whole.
    ///
    /// # Errors
    /// As [`HostData::borrowed`].
    pub fn part(
        dtype: DType,
        shape: impl Into<Shape>,
        memory: Arc<dyn HostMemory>,
        bytes: Range<usize>,
    ) -> Result<Self> {
        Self::shared(dtype, shape, Arc::new(Part { memory, bytes }))
    }

    /// An array that lies nowhere as a whole, or nowhere that can be named: `fill` writes the elements of the index
    /// ranges it is asked for into the bytes it is given, row-major in native order.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn pieces(
        dtype: DType,
        shape: impl Into<Shape>,
        fill: impl Fn(&Region, &mut [u8]) + 'a,
    ) -> Result<Self> {
        let meta = LocalMeta::contiguous(dtype, Shape::new(shape)?);
        Ok(Self { meta, memory: Memory::Pieces(Arc::new(fill)) })
    }

    fn new(dtype: DType, shape: impl Into<Shape>, memory: Memory<'a>) -> Result<Self> {
        let data = Self { meta: LocalMeta::contiguous(dtype, Shape::new(shape)?), memory };
        let (have, want) = (data.held()?.map_or(0, <[u8]>::len), data.nbytes());
        if have == want {
            return Ok(data);
        }
        let (shape, size) = (data.shape(), dtype.size());
        let values = if have.is_multiple_of(size) {
            format!("{} values", have / size)
        } else {
            format!("{have} bytes")
        };
        Err(Error::new(
            ErrorKind::Shape,
            format!("{values} for {dtype}{shape} of {} elements", shape.elements()),
        )
        .with_fix("give one value per element, in row-major order"))
    }

    /// The same memory as an array of another shape: element `[i, j, ..]` is that at
    /// `offset + i * strides[0] + j * strides[1] + ..`, in elements from the first one. A stride may be negative or 0.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if there is not one stride per extent, or an element lies outside the memory;
    /// [`ErrorKind::Argument`] for data that is made of pieces.
    pub fn with_strides(self, shape: impl Into<Shape>, strides: &[isize], offset: usize) -> Result<Self> {
        let shape = Shape::new(shape)?;
        let Some(memory) = self.held()? else {
            return Err(Error::new(ErrorKind::Argument, "data that is made of pieces has no strides")
                .with_fix("HostData::pieces with the other shape"));
        };
        let elements = memory.len() / self.dtype().size();
        if strides.len() != shape.len() {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("{} strides for the shape {shape} of {} axes", strides.len(), shape.len()),
            )
            .with_fix("give one stride per axis"));
        }
        let meta = LocalMeta { dtype: self.dtype(), shape, strides: strides.into(), offset };
        let inside = meta.span().is_some_and(|span| span.end <= elements);
        if !inside {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "{} with strides {strides:?} from {offset} reaches beyond {elements} elements",
                    meta.shape
                ),
            )
            .with_fix("give strides in elements, and the place of the element at index 0"));
        }
        if meta.shape.contains(&0) {
            // Strides that are never taken say nothing, and steps along them may not even fit.
            return Ok(Self { meta: LocalMeta::contiguous(meta.dtype, meta.shape), ..self });
        }
        Ok(Self { meta, ..self })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.meta.dtype
    }
    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.meta.shape
    }
    /// dtype, shape, strides and offset.
    pub fn meta(&self) -> &LocalMeta {
        &self.meta
    }
    /// Bytes of the elements, each index counted.
    pub fn nbytes(&self) -> usize {
        self.shape().elements().saturating_mul(self.dtype().size())
    }
    /// The bytes that strides and offset are about; `None` where it is made of pieces.
    pub fn memory(&self) -> Option<&[u8]> {
        match &self.memory {
            Memory::Borrowed(bytes) => Some(bytes),
            Memory::Shared(memory) => Some(memory.bytes()),
            Memory::Pieces(_) => None,
        }
    }
    /// The same where it is borrowed, for as long as it is.
    pub fn borrowed_memory(&self) -> Option<&'a [u8]> {
        match &self.memory {
            Memory::Borrowed(bytes) => Some(bytes),
            _ => None,
        }
    }
    /// [`HostData::memory`], where a panic of whoever owns it is an error.
    fn held(&self) -> Result<Option<&[u8]>> {
        match &self.memory {
            Memory::Shared(memory) => bytes_of(&**memory).map(Some),
            Memory::Borrowed(_) | Memory::Pieces(_) => Ok(self.memory()),
        }
    }
    /// The memory, where it is owned.
    pub(crate) fn owner(&self) -> Option<&Arc<dyn HostMemory>> {
        match &self.memory {
            Memory::Shared(memory) => Some(memory),
            _ => None,
        }
    }

    /// All elements, row-major.
    ///
    /// # Errors
    /// [`ErrorKind::DType`] for another element type; [`ErrorKind::Backend`] where there is no room for them, or the memory has
    /// become shorter than it was; [`ErrorKind::Kernel`] if what brings the elements panics.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        crate::tensor::expect_dtype::<T>(self.dtype())?;
        let whole = self.shape().iter().map(|extent| std::iter::once(0..*extent).collect()).collect();
        crate::tensor::read_elements(self.shape().elements(), |bytes| self.copy(&whole, bytes))
    }

    /// The view of a region, where it is one range on every axis.
    pub(crate) fn view(&self, region: &Region) -> Option<LocalMeta> {
        let mut meta = self.meta.clone();
        let mut starts: SmallVec<[isize; 4]> = SmallVec::new();
        for (ranges, extent) in region.iter().zip(meta.shape.iter_mut()) {
            let [range] = ranges.as_slice() else { return None };
            *extent = range.len();
            starts.push(range.start as isize);
        }
        if meta.shape.contains(&0) {
            // Where nothing lies nothing is reached.
            meta.offset = 0;
            return Some(meta);
        }
        for (start, stride) in starts.iter().zip(&self.meta.strides) {
            meta.offset = meta.offset.checked_add_signed(start.checked_mul(*stride)?)?;
        }
        Some(meta)
    }

    /// The bytes of a region, where they lie in row-major order without gaps.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] if the owner of the memory panics.
    pub(crate) fn dense(&self, region: &Region) -> Result<Option<&[u8]>> {
        let Some(meta) = self.view(region).filter(LocalMeta::is_contiguous) else { return Ok(None) };
        let size = meta.dtype.size();
        let from = self.held()?.and_then(|memory| memory.get(meta.offset * size..));
        Ok(from.and_then(|from| from.get(..meta.shape.elements() * size)))
    }

    /// Copies the elements of a region, row-major, into as many bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Backend`] if the memory has become shorter than it was; [`ErrorKind::Kernel`] if what brings the
    /// elements panics.
    pub(crate) fn copy(&self, region: &Region, into: &mut [u8]) -> Result<()> {
        let memory = match &self.memory {
            Memory::Pieces(fill) => {
                return guarded("the callback of HostData::pieces", || {
                    fill(region, into);
                    Ok(())
                });
            }
            Memory::Borrowed(_) | Memory::Shared(_) => self.held()?.unwrap_or_default(),
        };
        let size = self.dtype().size();
        let mut rest = into;
        let mut put = |element: isize, n: usize| -> Result<()> {
            if n == 0 {
                return Ok(());
            }
            let start = element as usize * size;
            let from = memory.get(start..start + n * size).ok_or_else(|| self.short(memory.len()))?;
            let (slots, left) = std::mem::take(&mut rest)
                .split_at_mut_checked(from.len())
                .ok_or_else(|| Error::new(ErrorKind::Internal, "more elements than there is room for"))?;
            slots.copy_from_slice(from);
            rest = left;
            Ok(())
        };
        // Where the elements of the outer axes begin; the innermost axis is copied range by range.
        let mut starts: Vec<isize> = vec![self.meta.offset as isize];
        let Some((inner, outer)) = region.split_last() else {
            return put(self.meta.offset as isize, 1);
        };
        let innermost = self.meta.strides.last().copied().unwrap_or(1);
        if inner.iter().all(Range::is_empty) {
            return Ok(());
        }
        for (ranges, stride) in outer.iter().zip(&self.meta.strides) {
            starts = starts
                .iter()
                .flat_map(|start| ranges.iter().cloned().flatten().map(move |i| start + i as isize * stride))
                .collect();
        }
        for start in starts {
            for range in inner {
                let first = start + range.start as isize * innermost;
                if innermost == 1 {
                    put(first, range.len())?;
                } else {
                    (0..range.len() as isize).try_for_each(|i| put(first + i * innermost, 1))?;
                }
            }
        }
        Ok(())
    }

    fn short(&self, bytes: usize) -> Error {
        Error::new(
            ErrorKind::Backend,
            format!(
                "{bytes} bytes of host memory are fewer than {}{} was made of",
                self.dtype(),
                self.shape()
            ),
        )
        .with_fix("let HostMemory::bytes give the same bytes every time")
    }
}

/// A part of bytes; empty where they are fewer.
struct Part {
    memory: Arc<dyn HostMemory>,
    bytes: Range<usize>,
}

impl HostMemory for Part {
    fn bytes(&self) -> &[u8] {
        self.memory.bytes().get(self.bytes.clone()).unwrap_or(&[])
    }
}

impl fmt::Debug for HostData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = match &self.memory {
            Memory::Borrowed(_) => "borrowed",
            Memory::Shared(_) => "owned",
            Memory::Pieces(_) => "in pieces",
        };
        write!(f, "HostData({}{}, {memory})", self.dtype(), self.shape())
    }
}
