//! Fused weights: several parts joined on one tensor axis, each split on its own.

use super::{Place, Placement, PlacementKey, Ranges, Transition};
use crate::split::balanced;
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// A tensor axis that joins parts (query, key and value; gate and up), each of which is split over the mesh axis:
/// a device holds a piece of every part.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Interleaved {
    axis: usize,
    parts: SmallVec<[usize; 4]>,
}

impl Interleaved {
    /// Parts of these extents on `axis`.
    pub fn new(axis: usize, parts: impl AsRef<[usize]>) -> Self {
        Self { axis, parts: parts.as_ref().into() }
    }
    /// [`Interleaved::new`] as a [`Place`]; a single part is the balanced split and gives `Sharded`.
    pub fn place(axis: usize, parts: impl AsRef<[usize]>) -> Place {
        let parts = parts.as_ref();
        if parts.len() == 1 { super::sharded(axis) } else { Place::custom(Self::new(axis, parts)) }
    }
    /// The extent of each part.
    pub fn parts(&self) -> &[usize] {
        &self.parts
    }
}

impl Placement for Interleaved {
    fn key(&self) -> PlacementKey {
        let words = std::iter::once(self.axis).chain(self.parts.iter().copied()).map(|word| word as u64);
        PlacementKey { name: "Interleaved", words: words.collect() }
    }
    fn tensor_axis(&self) -> Option<usize> {
        Some(self.axis)
    }
    fn on_axis(&self, tensor_axis: usize) -> Arc<dyn Placement> {
        Arc::new(Self { axis: tensor_axis, parts: self.parts.clone() })
    }
    fn check(&self, extent: usize, _ways: usize) -> Result<()> {
        let sum = self.parts.iter().try_fold(0_usize, |sum, size| sum.checked_add(*size));
        if sum != Some(extent) {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "the parts of {self:?} do not add up to the extent {extent} of tensor axis {}",
                    self.axis
                ),
            )
            .with_fix("give Interleaved parts whose sum is the extent"));
        }
        Ok(())
    }
    fn ranges(&self, _extent: usize, ways: usize, part: usize) -> Ranges {
        let mut start = 0;
        let mut ranges = Ranges::new();
        for extent in &self.parts {
            let piece = balanced(*extent, ways, part);
            if !piece.is_empty() {
                ranges.push(start + piece.start..start + piece.end);
            }
            start += extent;
        }
        ranges
    }
    fn transition_to(&self, to: Place, _extent: usize, _ways: usize) -> Transition {
        Transition::between_splits(super::sharded(self.axis), to)
    }
}

impl fmt::Debug for Interleaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interleaved({}, {:?})", self.axis, self.parts.as_slice())
    }
}
