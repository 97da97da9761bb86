//! How many bytes are alive on each device, in the [`Simulation`] in force.

use crate::Simulation;
use sharding_core::Device;
use sharding_core::backend::MemoryUse;

/// What is alive on a device.
pub(crate) fn of(device: Device) -> MemoryUse {
    Simulation::current().memory(device)
}

/// Makes what is alive the peak.
pub(crate) fn reset_peak(device: Device) {
    Simulation::current().reset_peak(device);
}
