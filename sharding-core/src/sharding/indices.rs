//! Index maps: the indices of every device, one at a time.

use super::tiling::position_in;
use super::{Devices, Tiling};
use crate::{Device, Error, ErrorKind, Region, Result, Shape};

/// The indices of every device of a sharding, in device order.
///
/// An iterator that makes each answer when it is asked: no list is kept, and [`IndicesMap::of`] answers for one device
/// of a million in the time of a few divisions.
#[derive(Clone, Debug)]
pub struct IndicesMap {
    devices: Devices,
    tiling: Tiling,
    shape: Shape,
}

impl IndicesMap {
    /// The indices that devices hold of a tensor of this shape.
    ///
    /// # Errors
    /// [`ErrorKind::Unreduced`] if they hold terms of a value, or things with no known relation.
    pub fn new(devices: Devices, tiling: Tiling, shape: &Shape) -> Result<Self> {
        if let Some(place) = tiling.terms().next() {
            return Err(Error::new(
                ErrorKind::Unreduced,
                format!("devices hold {place}: none of them has the value of an element"),
            )
            .with_fix(
                "reduce it first (all_reduce), or ask DeviceMapping::region for the indices of the terms",
            ));
        }
        Ok(Self { devices, tiling, shape: shape.clone() })
    }

    /// The index ranges of a device, per tensor axis.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for a device that is not in this map.
    pub fn of(&self, device: Device) -> Result<Region> {
        Ok(self.tiling.region(&self.shape, self.position(device)?))
    }
    /// How many devices before that one, of all devices of the sharding, hold the same indices.
    ///
    /// # Errors
    /// As [`IndicesMap::of`].
    pub fn replica_id(&self, device: Device) -> Result<usize> {
        Ok(self.tiling.replica_id(&self.shape, self.position(device)?))
    }
    /// The shape that the indices are of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    fn position(&self, device: Device) -> Result<usize> {
        if self.devices.contains(device) {
            return position_in(self.devices.mesh(), device, &"this index map");
        }
        Err(Error::new(ErrorKind::Argument, format!("{device} is not in this index map")).with_fix(
            "ask about a device of the sharding; addressable_devices_indices_map has those of this process only",
        ))
    }
}

impl Iterator for IndicesMap {
    type Item = (Device, Region);

    fn next(&mut self) -> Option<Self::Item> {
        let (position, device) = self.devices.next_at()?;
        Some((device, self.tiling.region(&self.shape, position)))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.devices.size_hint()
    }
    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        let device = self.devices.nth(n)?;
        Some((device, self.of(device).ok()?))
    }
}
