//! How many bytes are alive on each device.

use sharding_core::Device;
use sharding_core::backend::{HeldBytes, MemoryLedger, MemoryUse};

static LEDGER: MemoryLedger = MemoryLedger::new();

/// Counts the bytes of a storage until it is dropped.
pub(crate) fn hold(device: Device, bytes: usize) -> HeldBytes {
    LEDGER.hold(device, bytes)
}

/// Buffers of at least so many bytes ask for huge pages: below, most of a huge page would be waste.
#[cfg(target_os = "linux")]
const HUGE: usize = 4 << 20;

/// Asks the system for huge pages under a large new buffer, where it grants them on request: writing one for the first time
/// then takes a five-hundredth of the page faults. Where it does not, nothing changes.
#[cfg(target_os = "linux")]
pub(crate) fn want_huge_pages<T>(buffer: &mut [T]) {
    const PAGE: usize = 4096;
    let bytes = size_of_val(buffer);
    if bytes < HUGE {
        return;
    }
    let start = buffer.as_mut_ptr().cast::<u8>();
    let skip = start.align_offset(PAGE);
    let pages = bytes.saturating_sub(skip) / PAGE * PAGE;
    // SAFETY: the pages lie inside the buffer, as `skip` is below a page and `bytes` far above it; the advice leaves their
    // content as it is. That it may be refused is no error.
    unsafe { libc::madvise(start.add(skip).cast(), pages, libc::MADV_HUGEPAGE) };
}

/// Elsewhere there is nobody to ask.
#[cfg(not(target_os = "linux"))]
pub(crate) fn want_huge_pages<T>(_: &mut [T]) {}

/// What is alive on a device.
pub(crate) fn of(device: Device) -> MemoryUse {
    LEDGER.of(device)
}

/// Makes what is alive the peak.
pub(crate) fn reset_peak(device: Device) {
    LEDGER.reset_peak(device);
}
