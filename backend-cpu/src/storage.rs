//! Host memory: a block of elements that may not be defined yet, and typed access to it.
//!
//! Memory knows the size of its elements, not their dtype: what only moves elements (copies, gathers, concatenations,
//! permutations) is compiled once for each size, see [`with_word`].

use crate::copy::{Walk, spread};
use crate::element::{Cell, Slot};
use crate::memory::{self, Block};
use bytemuck::cast_slice;
use sharding_core::backend::{HeldBytes, HostMemory, LocalArray, LocalMeta, Storage, bytes_of};
use sharding_core::{DType, Device, Error, ErrorKind, Result, Shape};
use std::any::Any;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Runs a body with `$W` as the unsigned integer of the size of a dtype's elements.
macro_rules! with_word {
    ($dtype:expr, $W:ident => $body:expr) => {
        match sharding_core::DType::size($dtype) {
            1 => {
                type $W = u8;
                $body
            }
            2 => {
                type $W = u16;
                $body
            }
            4 => {
                type $W = u32;
                $body
            }
            _ => {
                type $W = u64;
                $body
            }
        }
    };
}
pub(crate) use with_word;

/// A buffer in host memory.
pub(crate) struct CpuStorage {
    device: Device,
    held: HeldBytes,
    /// Whether every element is defined. Only [`overwrite`] and [`CpuStorage::define`] set it.
    ready: bool,
    dtype: DType,
    block: Block,
    /// Memory of somebody else that is read instead of the block. It is never written: see [`unique`].
    adopted: Option<Arc<dyn HostMemory>>,
}

impl CpuStorage {
    fn new(device: Device, dtype: DType, elements: usize) -> Result<Self> {
        let block = elements.checked_mul(dtype.size()).and_then(|bytes| Some((bytes, Block::new(bytes)?)));
        let (bytes, block) = block.ok_or_else(|| no_memory(dtype, elements))?;
        let held = memory::hold(device, bytes);
        Ok(Self { device, held, ready: elements == 0, dtype, block, adopted: None })
    }

    /// Another storage of the same elements.
    fn copied(&self) -> Result<Self> {
        let mut copy = Self::new(self.device, self.dtype, self.held.bytes() / self.dtype.size())?;
        if let Some(memory) = &self.adopted {
            let room = copy.block.elements_mut::<u8>();
            for (slot, byte) in room.iter_mut().zip(self.adopted_bytes(&**memory)?) {
                slot.write(*byte);
            }
            copy.ready = true;
            return Ok(copy);
        }
        copy.block.elements_mut::<u8>().copy_from_slice(self.block.elements());
        copy.ready = self.ready;
        Ok(copy)
    }

    /// Gives elements that are not defined the value zero.
    fn define(&mut self) -> Result<()> {
        if !self.ready {
            with_word!(self.dtype, W => self.data_mut::<W>()?.fill(MaybeUninit::new(0)));
            self.ready = true;
        }
        Ok(())
    }

    fn data_mut<T: Cell>(&mut self) -> Result<&mut [MaybeUninit<T>]> {
        if size_of::<T>() != self.dtype.size() {
            return Err(other_size::<T>(self.dtype));
        }
        Ok(self.block.elements_mut())
    }

    /// All elements.
    pub(crate) fn elements<T: Cell>(&self) -> Result<&[T]> {
        if size_of::<T>() != self.dtype.size() {
            return Err(other_size::<T>(self.dtype));
        }
        if let Some(memory) = &self.adopted {
            return bytemuck::try_cast_slice(self.adopted_bytes(&**memory)?).map_err(|_| moved());
        }
        if !self.ready {
            return Err(internal("an array is read that was never written"));
        }
        // SAFETY: `ready` says that every element is initialised, and any bits are a value of a `Cell`.
        Ok(unsafe { &*(std::ptr::from_ref(self.block.elements::<T>()) as *const [T]) })
    }

    /// The bytes of somebody's memory, which are as many as they were.
    fn adopted_bytes<'a>(&self, memory: &'a dyn HostMemory) -> Result<&'a [u8]> {
        Some(bytes_of(memory)?).filter(|bytes| bytes.len() == self.held.bytes()).ok_or_else(moved)
    }

    /// All elements, to be written in place.
    pub(crate) fn elements_mut<T: Cell>(&mut self) -> Result<&mut [T]> {
        self.define()?;
        let data = self.data_mut::<T>()?;
        // SAFETY: `define` initialised every element, and `MaybeUninit<T>` has the layout of `T`; a `&mut [T]` cannot
        // make an element undefined again.
        Ok(unsafe { &mut *(std::ptr::from_mut(data) as *mut [T]) })
    }
}

impl Storage for CpuStorage {
    fn device(&self) -> Device {
        self.device
    }
    fn bytes(&self) -> usize {
        self.held.bytes()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// An error of this library, not of its caller.
pub(crate) fn internal(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Internal, message)
}

/// What the backend does not do.
pub(crate) fn unsupported(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Backend, format!("the cpu backend does not support {what}"))
}

fn no_memory(dtype: DType, elements: usize) -> Error {
    Error::new(ErrorKind::Backend, format!("not enough host memory for {elements} elements of {dtype}"))
        .with_fix("split the tensor over more devices, or free what is not needed")
}

fn moved() -> Error {
    Error::new(ErrorKind::Backend, "host memory that a tensor keeps is no longer what it was")
        .with_fix("let HostMemory::bytes give the same bytes every time")
}

fn other_size<T>(found: DType) -> Error {
    internal(format!("a storage of {found} is read in elements of {} bytes", size_of::<T>()))
}

/// A contiguous array whose elements are not defined yet.
pub(crate) fn alloc(device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
    let elements = shape.elements();
    let storage = CpuStorage::new(device, dtype, elements)?;
    Ok(LocalArray::new(LocalMeta::contiguous(dtype, shape.clone()), Arc::new(storage)))
}

/// An array over memory of somebody else; see [`Backend::adopt`](sharding_core::backend::Backend::adopt).
pub(crate) fn adopt(
    device: Device,
    memory: &Arc<dyn HostMemory>,
    meta: &LocalMeta,
) -> Result<Option<LocalArray>> {
    let bytes = bytes_of(&**memory)?;
    // Elements that are aligned, and no rest.
    let words = with_word!(meta.dtype, W => bytemuck::try_cast_slice::<u8, W>(bytes).ok().map(<[W]>::len));
    let Some(words) = words else { return Ok(None) };
    if !fits(meta, words) {
        return Err(moved());
    }
    if meta.dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
        return Ok(None);
    }
    let mut storage = CpuStorage::new(device, meta.dtype, 0)?;
    storage.held = memory::hold(device, bytes.len());
    storage.adopted = Some(memory.clone());
    Ok(Some(LocalArray::new(meta.clone(), Arc::new(storage))))
}

/// The bytes of the whole storage; see [`Backend::peek`](sharding_core::backend::Backend::peek).
pub(crate) fn peek(array: &LocalArray) -> Result<&[u8]> {
    let storage = of(array)?;
    with_word!(storage.dtype, W => storage.elements::<W>().map(cast_slice))
}

fn of(array: &LocalArray) -> Result<&CpuStorage> {
    array.storage().as_any().downcast_ref().ok_or_else(|| internal("an array of another backend"))
}

/// The storage of an array, in which others see no change: if it is shared, the array gets a copy of its own.
pub(crate) fn owned(array: &mut LocalArray) -> Result<&mut CpuStorage> {
    if Arc::strong_count(array.storage()) != 1 {
        let copy = of(array)?.copied()?;
        *array.storage_mut() = Arc::new(copy);
    }
    unique(array)
}

fn unique(array: &mut LocalArray) -> Result<&mut CpuStorage> {
    let storage: &mut CpuStorage = Arc::get_mut(array.storage_mut())
        .and_then(|storage| storage.as_any_mut().downcast_mut())
        .ok_or_else(|| internal("a storage has two owners"))?;
    if storage.adopted.is_some() {
        // Memory of somebody else is copied before it is written.
        *storage = storage.copied()?;
    }
    Ok(storage)
}

/// Runs `write` on all elements of a contiguous array; if its storage is shared, on those of a new one.
///
/// # Safety
/// Where `write` gives `Ok`, it has initialised every element.
pub(crate) unsafe fn overwrite<T: Cell>(
    array: &mut LocalArray,
    write: impl FnOnce(&mut [MaybeUninit<T>]) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    write(unsafe { places(array) }?)?;
    // SAFETY: as above.
    unsafe { written(array) }
}

/// The places of a contiguous array for elements that replace all of it; if its storage is shared, those of a new one.
/// [`written`] then says that they are there.
///
/// # Safety
/// Nothing but values is put there.
pub(crate) unsafe fn places<T: Cell>(array: &mut LocalArray) -> Result<&mut [MaybeUninit<T>]> {
    // Storages have no weak references; `unique` would notice.
    if Arc::strong_count(array.storage()) != 1 || of(array)?.adopted.is_some() {
        *array = alloc(array.device(), array.dtype(), array.shape())?;
    }
    let (start, len) = (array.meta().offset, array.elements());
    if len == 0 {
        return Ok(&mut []);
    }
    let storage = unique(array)?;
    let whole = start == 0 && len * size_of::<T>() == storage.held.bytes();
    if !whole {
        // Elements beside the array must not stay undefined when the storage is marked as ready.
        storage.define()?;
    }
    let data = storage.data_mut::<T>()?;
    let part = start.checked_add(len).and_then(|end| data.get_mut(start..end));
    part.ok_or_else(|| internal("an array exceeds its storage"))
}

/// Says that an array can be read.
///
/// # Safety
/// Since its [`places`] were taken, each has got a value.
pub(crate) unsafe fn written(array: &mut LocalArray) -> Result<()> {
    unique(array)?.ready = true;
    Ok(())
}

/// The elements of an array whose memory is known to hold them all.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, T> {
    data: &'a [T],
    meta: &'a LocalMeta,
}

impl<'a, T: Cell> View<'a, T> {
    /// The elements of an array.
    pub(crate) fn of(array: &'a LocalArray) -> Result<Self> {
        let meta = array.meta();
        let data = of(array)?.elements()?;
        // Memory safety does not rest on this, but a view out of bounds would panic far from its cause.
        in_bounds(meta, data.len())?;
        Ok(Self { data, meta })
    }
    /// The whole storage.
    pub(crate) fn data(&self) -> &'a [T] {
        self.data
    }
    /// shape, strides and offset.
    pub(crate) fn meta(&self) -> &'a LocalMeta {
        self.meta
    }
    /// The elements in row-major order, where they lie so.
    pub(crate) fn dense(&self) -> Option<&'a [T]> {
        let len = self.meta.shape.elements();
        if len == 0 {
            return Some(&[]);
        }
        self.meta.is_contiguous().then(|| &self.data[self.meta.offset..self.meta.offset + len])
    }
    /// Elements `start..start + out.len()` of the row-major order.
    pub(crate) fn read<O: Slot<T>>(&self, start: usize, out: &mut [O]) {
        Walk::new(&self.meta.shape, &self.meta.strides, self.meta.offset as isize)
            .read(self.data, start, out);
    }
    /// All elements in row-major order; `out` must be as long.
    pub(crate) fn copy<O: Slot<T>>(&self, out: &mut [O]) {
        spread(&self.meta.shape, &self.meta.strides, self.meta.offset as isize, self.data, out);
    }
    /// The elements in row-major order, copied if they do not lie so.
    pub(crate) fn to_dense(self) -> std::borrow::Cow<'a, [T]> {
        match self.dense() {
            Some(elements) => elements.into(),
            None => {
                let mut copy = vec![T::zeroed(); self.meta.shape.elements()];
                self.copy(&mut copy);
                copy.into()
            }
        }
    }
}

/// The elements of an array that lie in row-major order.
pub(crate) fn dense<T: Cell>(array: &LocalArray) -> Option<&[T]> {
    if !array.is_contiguous() {
        return None;
    }
    let (start, len) = (array.meta().offset, array.elements());
    of(array).ok()?.elements().ok()?.get(start..start.checked_add(len)?)
}

/// Elements as places for elements.
///
/// # Safety
/// Nothing but defined values may be put there.
pub(crate) unsafe fn as_slots<T>(elements: &mut [T]) -> &mut [MaybeUninit<T>] {
    // SAFETY: the layouts are the same, and the caller leaves every element defined.
    unsafe { &mut *(std::ptr::from_mut(elements) as *mut [MaybeUninit<T>]) }
}

/// Whether all indices of a view lie in a storage of `len` elements.
///
/// # Errors
/// If one does not.
pub(crate) fn in_bounds(meta: &LocalMeta, len: usize) -> Result<()> {
    if fits(meta, len) {
        return Ok(());
    }
    Err(internal(format!("a view {meta:?} exceeds its storage of {len} elements")))
}

fn fits(meta: &LocalMeta, len: usize) -> bool {
    meta.shape.len() == meta.strides.len() && meta.span().is_some_and(|span| span.end <= len)
}

/// Fills a contiguous array from bytes; see [`Backend::write`](sharding_core::backend::Backend::write).
pub(crate) fn write(bytes: &[u8], into: &mut LocalArray) -> Result<()> {
    if bytes.len() != into.bytes() {
        return Err(internal(format!("{} bytes are written to {into:?} of {}", bytes.len(), into.bytes())));
    }
    if !into.is_contiguous() {
        return Err(internal("an array with gaps is written as a whole"));
    }
    // Truth values are 0 or 1, whatever is written.
    let truth = into.dtype() == DType::Bool;
    with_word!(into.dtype(), W => {
        // SAFETY: there are as many chunks of bytes as elements (checked above), so each element gets a value.
        unsafe {
            overwrite::<W>(into, |out| {
                for (slot, bytes) in out.iter_mut().zip(bytes.chunks_exact(size_of::<W>())) {
                    let word: W = bytemuck::pod_read_unaligned(bytes);
                    slot.write(if truth { W::from(word != 0) } else { word });
                }
                Ok(())
            })
        }
    })
}

/// Reads an array of any strides; see [`Backend::read`](sharding_core::backend::Backend::read).
pub(crate) fn read(array: &LocalArray, into: &mut [u8]) -> Result<()> {
    if into.len() != array.bytes() {
        return Err(internal(format!("{array:?} of {} bytes is read into {}", array.bytes(), into.len())));
    }
    if into.is_empty() {
        return Ok(());
    }
    with_word!(array.dtype(), W => {
        let view = View::<W>::of(array)?;
        if let Some(elements) = view.dense() {
            into.copy_from_slice(cast_slice(elements));
            return Ok(());
        }
        const CHUNK: usize = 1024;
        let mut chunk: [W; CHUNK] = [0; CHUNK];
        for (i, bytes) in into.chunks_mut(CHUNK * size_of::<W>()).enumerate() {
            let part = &mut chunk[..bytes.len() / size_of::<W>()];
            view.read(i * CHUNK, part);
            bytes.copy_from_slice(cast_slice(part));
        }
        Ok(())
    })
}
