//! Devices: one accelerator, or one slot of a simulated mesh.

use std::fmt;

/// Which backend drives a device: `cpu`, `cuda`, `sim`, or the name of a backend in another crate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendKind(&'static str);

impl BackendKind {
    /// Host memory.
    pub const CPU: Self = Self("cpu");
    /// NVIDIA GPUs.
    pub const CUDA: Self = Self("cuda");
    /// No data: shapes and bytes only.
    pub const SIM: Self = Self("sim");

    /// A backend of another crate.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }
    /// As `==`, without a look at names of one address. (The operator is the derived one, so that kinds can be patterns.)
    #[inline]
    pub(crate) fn is(self, other: Self) -> bool {
        std::ptr::eq(self.0, other.0) || self == other
    }
    /// The name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
impl fmt::Debug for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One accelerator or CPU slot.
///
/// `ordinal` counts the real devices of a process, `slot` the places of a simulated mesh that share one ordinal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The process that can address it.
    pub process: u32,
    /// The backend that drives it.
    pub kind: BackendKind,
    /// The real device within its process.
    pub ordinal: u32,
    /// The slot on that device; 0 where the mesh is not simulated.
    pub slot: u32,
}

impl Device {
    /// Slot 0 of a real device of process 0.
    pub const fn new(kind: BackendKind, ordinal: u32) -> Self {
        Self { process: 0, kind, ordinal, slot: 0 }
    }
    /// The CPU of process 0.
    pub const fn cpu() -> Self {
        Self::new(BackendKind::CPU, 0)
    }
    /// This device at another slot.
    #[must_use]
    pub const fn with_slot(self, slot: u32) -> Self {
        Self { slot, ..self }
    }
    /// This device in another process.
    #[must_use]
    pub const fn with_process(self, process: u32) -> Self {
        Self { process, ..self }
    }
    /// Whether both are slots of one real device.
    pub fn same_ordinal(self, other: Device) -> bool {
        self.process == other.process && self.ordinal == other.ordinal && self.kind.is(other.kind)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.process != 0 {
            write!(f, "p{}:", self.process)?;
        }
        write!(f, "{}:{}", self.kind, self.ordinal)?;
        if self.slot != 0 {
            write!(f, "/{}", self.slot)?;
        }
        Ok(())
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
