//! How many bytes are alive on each device, and huge pages.

use sharding_core::Device;
use sharding_core::backend::{HeldBytes, MemoryLedger, MemoryUse};
use std::ptr::NonNull;

static LEDGER: MemoryLedger = MemoryLedger::new();

/// Counts the bytes of a storage until it is dropped.
pub(crate) fn hold(device: Device, bytes: usize) -> HeldBytes {
    LEDGER.hold(device, bytes)
}

/// Blocks of at least so many bytes ask for huge pages: below, most of a huge page would be waste.
pub(crate) const HUGE: usize = 4 << 20;

/// What such blocks are aligned to, so that the first page is huge too.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Asks the system for huge pages under a large new block, where it grants them on request: writing one for the first time
/// then takes a five-hundredth of the page faults. Where it does not, nothing changes. The block belongs to the caller.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn want_huge_pages(at: NonNull<u8>, bytes: usize) {
    if bytes >= HUGE {
        // SAFETY: the pages are those of the block, which begins with one; the advice leaves their content as it is. That it
        // may be refused is no error.
        unsafe { libc::madvise(at.as_ptr().cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
    }
}

/// Elsewhere there is nobody to ask.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn want_huge_pages(_: NonNull<u8>, _: usize) {}

/// What is alive on a device.
pub(crate) fn of(device: Device) -> MemoryUse {
    LEDGER.of(device)
}

/// Makes what is alive the peak.
pub(crate) fn reset_peak(device: Device) {
    LEDGER.reset_peak(device);
}
