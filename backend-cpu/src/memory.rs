//! How many bytes are alive on each device.

use sharding_core::Device;
use sharding_core::backend::{HeldBytes, MemoryLedger, MemoryUse};

static LEDGER: MemoryLedger = MemoryLedger::new();

/// Counts the bytes of a storage until it is dropped.
pub(crate) fn hold(device: Device, bytes: usize) -> HeldBytes {
    LEDGER.hold(device, bytes)
}

/// What is alive on a device.
pub(crate) fn of(device: Device) -> MemoryUse {
    LEDGER.of(device)
}

/// Makes what is alive the peak.
pub(crate) fn reset_peak(device: Device) {
    LEDGER.reset_peak(device);
}
