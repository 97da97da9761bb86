//! Lists of devices, stored as ranges where they are ranges.

use crate::Device;
use rustc_hash::FxHasher;
use std::hash::Hash;
use std::sync::OnceLock;

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
    List(Listed),
}

impl DeviceList {
    pub(super) fn new(devices: &[Device]) -> Self {
        let Some(first) = devices.first().copied() else { return Self::List(Listed::new(devices)) };
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
            Self::List(Listed::new(devices))
        }
    }

    pub(super) fn get(&self, position: usize) -> Option<Device> {
        match self {
            Self::Slots { first } => slot_after(*first, u32::try_from(position).ok()?),
            Self::Ordinals { first } => ordinal_after(*first, u32::try_from(position).ok()?),
            Self::List(listed) => listed.devices.get(position).copied(),
        }
    }

    /// The same device whichever form it is stored in.
    pub(super) fn hash(&self, hasher: &mut FxHasher) {
        match self {
            Self::Slots { first } => (0_u8, first).hash(hasher),
            Self::Ordinals { first } => (1_u8, first).hash(hasher),
            Self::List(listed) => (2_u8, &listed.devices).hash(hasher),
        }
    }
}

/// Devices in no order that can be counted.
#[derive(Clone)]
pub(super) struct Listed {
    pub(super) devices: Box<[Device]>,
    /// The positions in the order of their devices; made when the first device is looked for.
    by_device: OnceLock<Box<[u32]>>,
}

impl Listed {
    fn new(devices: &[Device]) -> Self {
        Self { devices: devices.into(), by_device: OnceLock::new() }
    }

    /// The position of a device, if it is one of them.
    pub(super) fn position_of(&self, device: Device) -> Option<usize> {
        let at = |position: u32| self.devices.get(position as usize).copied();
        let by_device = self.by_device.get_or_init(|| {
            let mut order: Box<[u32]> = (0..u32::MAX).take(self.devices.len()).collect();
            order.sort_unstable_by_key(|position| at(*position));
            order
        });
        let found = by_device.binary_search_by_key(&Some(device), |position| at(*position)).ok()?;
        by_device.get(found).map(|position| *position as usize)
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.devices == other.devices
    }
}
impl Eq for Listed {}

fn slot_after(first: Device, i: u32) -> Option<Device> {
    Some(Device { slot: first.slot.checked_add(i)?, ..first })
}
fn ordinal_after(first: Device, i: u32) -> Option<Device> {
    Some(Device { ordinal: first.ordinal.checked_add(i)?, ..first })
}
