//! Lists of devices, stored as ranges where they are ranges.

use crate::Device;
use rustc_hash::FxHasher;
use std::hash::Hash;

/// Devices of a mesh; a range of slots is stored as one, so a mesh of a million devices costs no list.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum DeviceList {
    /// `first`, then the same device at the following slots.
    Slots {
        first: Device,
    },
    /// `first`, then the following ordinals at the same slot.
    Ordinals {
        first: Device,
    },
    List(Box<[Device]>),
}

impl DeviceList {
    pub(super) fn new(devices: &[Device]) -> Self {
        let Some(first) = devices.first().copied() else { return Self::List(Box::default()) };
        let run = |step: fn(Device, u32) -> Option<Device>| {
            devices
                .iter()
                .enumerate()
                .all(|(i, device)| u32::try_from(i).ok().and_then(|i| step(first, i)) == Some(*device))
        };
        if run(slot_after) {
            Self::Slots { first }
        } else if run(ordinal_after) {
            Self::Ordinals { first }
        } else {
            Self::List(devices.into())
        }
    }

    pub(super) fn get(&self, position: usize) -> Option<Device> {
        match self {
            Self::Slots { first } => slot_after(*first, u32::try_from(position).ok()?),
            Self::Ordinals { first } => ordinal_after(*first, u32::try_from(position).ok()?),
            Self::List(devices) => devices.get(position).copied(),
        }
    }

    /// The same device whichever form it is stored in.
    pub(super) fn hash(&self, hasher: &mut FxHasher) {
        match self {
            Self::Slots { first } => (0_u8, first).hash(hasher),
            Self::Ordinals { first } => (1_u8, first).hash(hasher),
            Self::List(devices) => (2_u8, devices).hash(hasher),
        }
    }
}

fn slot_after(first: Device, i: u32) -> Option<Device> {
    Some(Device { slot: first.slot.checked_add(i)?, ..first })
}
fn ordinal_after(first: Device, i: u32) -> Option<Device> {
    Some(Device { ordinal: first.ordinal.checked_add(i)?, ..first })
}
