//! Shards whose sizes the user chose, or a reshape left.

use super::{Place, Placement, PlacementKey, Ranges, Transition};
use crate::{Error, ErrorKind, Result};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::Arc;

/// A tensor axis split in pieces of given sizes, one per device of the mesh axis, in order.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ragged {
    axis: usize,
    sizes: SmallVec<[usize; 4]>,
}

impl Ragged {
    /// `sizes[i]` elements of `axis` on device `i` of the mesh axis.
    pub fn new(axis: usize, sizes: impl AsRef<[usize]>) -> Self {
        Self { axis, sizes: sizes.as_ref().into() }
    }
    /// [`Ragged::new`] as a [`Place`]; sizes that are those of the balanced split give `Sharded`, so that equal
    /// ranges have one label.
    pub fn place(axis: usize, sizes: impl AsRef<[usize]>) -> Place {
        let sizes = sizes.as_ref();
        let extent = sizes.iter().fold(0_usize, |sum, size| sum.saturating_add(*size));
        if crate::split::balanced_sizes(extent, sizes.len()).eq(sizes.iter().copied()) {
            return super::sharded(axis);
        }
        Place::custom(Self::new(axis, sizes))
    }
    /// The size of each piece.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }
}

impl Placement for Ragged {
    fn key(&self) -> PlacementKey {
        let words = std::iter::once(self.axis).chain(self.sizes.iter().copied()).map(|word| word as u64);
        PlacementKey { name: "Ragged", words: words.collect() }
    }
    fn tensor_axis(&self) -> Option<usize> {
        Some(self.axis)
    }
    fn on_axis(&self, tensor_axis: usize) -> Arc<dyn Placement> {
        Arc::new(Self { axis: tensor_axis, sizes: self.sizes.clone() })
    }
    fn check(&self, extent: usize, ways: usize) -> Result<()> {
        if self.sizes.len() != ways {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!("{self:?} has {} sizes for {ways} devices", self.sizes.len()),
            )
            .with_fix("give Ragged one size per device of the mesh axis"));
        }
        let sum = self.sizes.iter().try_fold(0_usize, |sum, size| sum.checked_add(*size));
        if sum != Some(extent) {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "the sizes of {self:?} do not add up to the extent {extent} of tensor axis {}",
                    self.axis
                ),
            )
            .with_fix("give Ragged sizes whose sum is the extent"));
        }
        Ok(())
    }
    fn ranges(&self, _extent: usize, _ways: usize, part: usize) -> Ranges {
        let start = self.sizes.iter().take(part).sum();
        smallvec![start..start + self.sizes.get(part).copied().unwrap_or(0)]
    }
    fn transition_to(&self, to: Place, _extent: usize, _ways: usize) -> Transition {
        Transition::between_splits(super::sharded(self.axis), to)
    }
}

impl fmt::Debug for Ragged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ragged({}, {:?})", self.axis, self.sizes.as_slice())
    }
}
