//! The devices of a sharding, one after the other.

use crate::{Device, DeviceMesh};
use std::ops::Range;

/// Devices of a sharding in device order: all of them, or those of one process. A million devices cost no list.
#[derive(Clone, Debug)]
pub struct Devices {
    mesh: DeviceMesh,
    positions: Range<usize>,
    process: Option<u32>,
}

impl Devices {
    /// All devices of a mesh.
    pub fn all(mesh: &DeviceMesh) -> Self {
        Self { mesh: mesh.clone(), positions: 0..mesh.num_devices(), process: None }
    }
    /// Those that a process can address.
    pub fn of_process(mesh: &DeviceMesh, process: u32) -> Self {
        let all = Self::all(mesh);
        if mesh.is_all_of(process) { all } else { Self { process: Some(process), ..all } }
    }
    /// Whether a device is one of them, also if it was given already.
    pub fn contains(&self, device: Device) -> bool {
        self.process.is_none_or(|process| process == device.process)
            && self.mesh.position_of(device).is_some()
    }

    /// The next one with its position in the device order.
    pub(super) fn next_at(&mut self) -> Option<(usize, Device)> {
        let (mesh, process) = (&self.mesh, self.process);
        self.positions.find_map(|position| {
            let device = mesh.device(position)?;
            process.is_none_or(|process| process == device.process).then_some((position, device))
        })
    }
    pub(super) fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }
}

impl Iterator for Devices {
    type Item = Device;

    fn next(&mut self) -> Option<Device> {
        Some(self.next_at()?.1)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.positions.len();
        (if self.process.is_none() { n } else { 0 }, Some(n))
    }
    fn nth(&mut self, n: usize) -> Option<Device> {
        if self.process.is_none() {
            return self.mesh.device(self.positions.nth(n)?);
        }
        (0..n).try_for_each(|_| self.next().map(drop))?;
        self.next()
    }
}
