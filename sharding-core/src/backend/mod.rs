//! The contract between this crate and the backends.
//!
//! **Who validates.** Callers: a backend may assume that shapes, dtypes and numbers of operands are as
//! [`Primitive`] states, and that every [`LocalArray`] it gets is one of its own. It must not assume that data is
//! sensible: indices out of range are an error, never a read out of bounds.
//!
//! **Order.** Work of one device happens in the order of the calls. `launch`, `copy` and collectives may return before
//! the work is done; [`Backend::read`] and [`Backend::synchronize`] wait. A failure that shows up late comes back
//! from the next call on that device, as an error that names the op that caused it ([`Work::op`]), and once.
//!
//! **Aliasing.** Inputs may share storage with each other, with other tensors and with the results of earlier calls;
//! an output is never shared. Whoever writes a storage must be its only owner (`Arc::get_mut`), or copy it first.
//!
//! **Panics.** None: every failure is an [`Error`](crate::Error) of kind
//! [`ErrorKind::Backend`](crate::ErrorKind::Backend) or [`ErrorKind::Kernel`](crate::ErrorKind::Kernel). Probing
//! ([`Backend::devices`]) without a driver gives an error that says what is missing.
//!
//! **Threads.** All methods may be called from any thread. One thread drives all devices of a call; large kernels
//! split inside. How a kernel splits its work depends on shapes and dtypes only, so that results do not depend
//! on the number of threads.

mod array;
mod collective;
mod expr;
mod host_memory;
mod in_process;
mod index_map;
mod lowering;
mod memory;
mod primitive;
mod random;
mod registry;
mod thread_state;

pub use crate::dispatch::guarded;
pub use array::{LocalArray, LocalArrays, LocalMeta, Storage};
pub use collective::{Collectives, Exchange, Step, StepKind};
pub use expr::{BinaryOp, Expr, Node, UnaryOp};
pub use host_memory::{HostMemory, bytes_of};
pub use in_process::InProcess;
pub(crate) use in_process::{clear_recipes, pieces_of};
pub use index_map::{IndexMap, Piece};
pub use lowering::lower;
pub use memory::{HeldBytes, MemoryLedger, MemoryUse};
pub use primitive::{Attention, AttentionExtents, FusedOp, Gather, Iota, Primitive, Reduce};
pub use random::{Distribution, Random, RandomKey, next_below, philox};
pub use registry::{BackendDef, backend_of};
pub(crate) use thread_state::within;
pub use thread_state::{Carry, ThreadState};

use crate::{BackendKind, DType, Device, DeviceMesh, Result, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// The row-major positions of a mesh whose shards live in this process, ascending. Shared, so that a tensor costs
/// one reference count.
pub type Positions = Arc<[usize]>;

/// Whether a backend can run something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot, for this reason.
    No(String),
}

impl Support {
    /// Whether it can.
    pub fn is_yes(&self) -> bool {
        *self == Support::Yes
    }
}

/// One device's part of a launch.
pub struct Work<'a> {
    /// The op on whose behalf it runs, for errors and traces.
    pub op: &'static str,
    /// The device.
    pub device: Device,
    /// What the primitive reads, in its order.
    pub inputs: &'a [&'a LocalArray],
    /// What it writes: contiguous arrays of the result's dtype and shape, owned by nobody else.
    pub outputs: &'a mut [LocalArray],
}

/// Region copies into one array. Sources may be on other devices of the process.
pub struct Move<'a> {
    /// The op on whose behalf it runs.
    pub op: &'static str,
    /// A view to be copied, and the index of the target at which its first element lands.
    pub pieces: &'a [(LocalArray, SmallVec<[usize; 4]>)],
    /// The target, written in place; elements outside the pieces keep their values. If its storage is shared, it is
    /// copied first. No two of its indices are one element: see [`LocalArray::repeats`].
    pub into: &'a mut LocalArray,
}

/// A backend: memory and kernels of one kind of device. See the [module](self) for the contract.
pub trait Backend: Send + Sync {
    /// Its kind.
    fn kind(&self) -> BackendKind;

    /// The real devices there are. Probes; never panics.
    ///
    /// # Errors
    /// What is missing (a driver, a device), in words that a user can act on.
    fn devices(&self) -> Result<Vec<Device>>;

    /// The positions of a mesh whose shards this process holds. A backend without data may let a few positions stand
    /// for all, as long as they hold the largest shards.
    ///
    /// # Errors
    /// If the mesh names a device that is not there.
    fn positions(&self, mesh: &DeviceMesh) -> Result<Positions>;

    /// Whether a storage on `a` can be used on `b` as it is.
    fn shares_memory(&self, a: Device, b: Device) -> bool;

    /// Whether [`launch`](Self::launch) runs the primitive on such inputs. Honest both ways: the conformance suite
    /// checks that `Yes` runs and `No` does not.
    fn supports(&self, primitive: &Primitive, inputs: &[LocalMeta]) -> Support;

    /// A contiguous array whose elements are not defined yet, in a storage of its own.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn alloc(&self, device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray>;

    /// Fills a contiguous array from bytes in native order, row-major.
    ///
    /// # Errors
    /// If the transfer fails, or a late failure is due.
    fn write(&self, bytes: &[u8], into: &mut LocalArray) -> Result<()>;

    /// Reads an array of any strides in row-major order; waits for the work that makes it.
    ///
    /// # Errors
    /// If the transfer fails, or a late failure is due.
    fn read(&self, array: &LocalArray, into: &mut [u8]) -> Result<()>;

    /// An array over host memory that somebody owns, without a copy; `None` where the backend cannot use it as it is (it
    /// lies in another memory, is not aligned, holds truth values that are neither 0 nor 1). Nothing is ever written to
    /// that memory: whoever writes the array copies it first. The storage counts whole on `device`.
    ///
    /// # Errors
    /// If `meta` reaches beyond the memory.
    fn adopt(
        &self,
        device: Device,
        memory: &Arc<dyn HostMemory>,
        meta: &LocalMeta,
    ) -> Result<Option<LocalArray>>;

    /// The bytes of an array's whole storage, where they are host memory: for strides and offset of the array's
    /// [`meta`](LocalArray::meta). `None` where they are not; then there is [`read`](Self::read). Waits for the work that
    /// makes them.
    ///
    /// # Errors
    /// If a late failure is due.
    fn peek<'a>(&self, array: &'a LocalArray) -> Result<Option<&'a [u8]>>;

    /// Region copies inside the process.
    ///
    /// # Errors
    /// If a transfer fails, or a late failure is due.
    fn copy(&self, moves: &mut [Move<'_>]) -> Result<()>;

    /// Runs one primitive on several devices.
    ///
    /// # Errors
    /// If it is not supported, fails, or a late failure is due.
    fn launch(&self, primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()>;

    /// Bytes of the storages on a device, one slot of it: alive now, and at the peak since the last
    /// [`reset_peak_memory`](Self::reset_peak_memory) (or the first storage). A storage counts whole, once, on the
    /// device that it says it lies on, from [`alloc`](Self::alloc) or the write that copied it until it is dropped.
    /// [`MemoryLedger`] keeps such accounts.
    ///
    /// # Errors
    /// What is missing, if the device cannot be there.
    fn memory(&self, device: Device) -> Result<MemoryUse>;

    /// Makes the bytes alive on a device its peak.
    ///
    /// # Errors
    /// As [`memory`](Self::memory).
    fn reset_peak_memory(&self, device: Device) -> Result<()>;

    /// Waits for all work of a device.
    ///
    /// # Errors
    /// A late failure, if one is due.
    fn synchronize(&self, device: Device) -> Result<()>;

    /// The collectives between its devices.
    fn collectives(&self) -> &dyn Collectives;
}
