//! How often something ran, device by device.

use crate::manual::Varies;
use crate::tensor::resolve;
use crate::{Device, DeviceMesh};
use std::collections::BTreeMap;

/// How often something ran on each device.
///
/// Groups of a [region](crate::manual) run at the same time, and each may run something else: what runs there counts for the
/// devices of its group. Outside of regions one step follows the other, and each counts for all devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Of all devices.
    everywhere: u64,
    /// Of single devices, besides.
    of: BTreeMap<Device, u64>,
}

impl Runs {
    /// One run, here and now, with results on this mesh. Of a mesh that the backend holds in part, it counts for the devices
    /// that are held.
    pub fn once(mesh: &DeviceMesh) -> Self {
        if !Varies::anywhere().is_none()
            && let Ok((_, positions)) = resolve(mesh)
        {
            let of = positions.iter().filter_map(|position| Some((mesh.device(*position)?, 1))).collect();
            return Self { everywhere: 0, of };
        }
        Self { everywhere: 1, of: BTreeMap::new() }
    }

    /// Adds these runs.
    pub fn add(&mut self, other: &Self) {
        self.everywhere += other.everywhere;
        for (device, count) in &other.of {
            *self.of.entry(*device).or_default() += count;
        }
    }

    /// How often it ran on the device on which it ran most.
    pub fn most(&self) -> u64 {
        self.everywhere + self.of.values().max().copied().unwrap_or(0)
    }

    /// What a device pays for all of these, each with what one run costs: the device that pays most.
    pub fn cost<'a>(all: impl IntoIterator<Item = (f64, &'a Self)>) -> f64 {
        let mut everywhere = 0.0;
        let mut of: BTreeMap<Device, f64> = BTreeMap::new();
        for (cost, runs) in all {
            everywhere += cost * runs.everywhere as f64;
            for (device, count) in &runs.of {
                *of.entry(*device).or_default() += cost * *count as f64;
            }
        }
        everywhere + of.into_values().max_by(f64::total_cmp).unwrap_or(0.0)
    }
}
