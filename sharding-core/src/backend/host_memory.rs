//! Host memory that somebody else owns.

use crate::dispatch::guarded;
use crate::{Element, Result};
use std::sync::Arc;

/// Bytes on the host that stay where they are and as they are while this lives: what a backend may keep instead of a
/// copy ([`Backend::adopt`](super::Backend::adopt)).
///
/// Vectors and shared slices of elements are; so is a memory map, or a part of one, in a type of your own. An
/// implementation whose bytes change in number or place breaks no memory safety: they are asked for anew and checked
/// at every use.
///
/// ```
/// use sharding_core::backend::HostMemory;
/// use std::sync::Arc;
///
/// /// The rows of a file that is held as a whole.
/// struct Rows { file: Arc<[u8]>, at: std::ops::Range<usize> }
/// impl HostMemory for Rows {
///     fn bytes(&self) -> &[u8] {
///         &self.file[self.at.clone()]
///     }
/// }
/// ```
pub trait HostMemory: Send + Sync + 'static {
    /// The bytes, in native order.
    fn bytes(&self) -> &[u8];
}

/// The bytes of somebody's memory: what backends ask for them with.
///
/// # Errors
/// [`ErrorKind::Kernel`](crate::ErrorKind::Kernel) if the owner panics.
pub fn bytes_of(memory: &dyn HostMemory) -> Result<&[u8]> {
    guarded("HostMemory::bytes", || Ok(memory.bytes()))
}

impl<T: Element> HostMemory for Vec<T> {
    fn bytes(&self) -> &[u8] {
        T::as_bytes(self)
    }
}
impl<T: Element> HostMemory for Box<[T]> {
    fn bytes(&self) -> &[u8] {
        T::as_bytes(self)
    }
}
impl<T: Element> HostMemory for Arc<[T]> {
    fn bytes(&self) -> &[u8] {
        T::as_bytes(self)
    }
}
impl<M: HostMemory + ?Sized> HostMemory for Arc<M> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }
}
