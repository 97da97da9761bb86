//! A placement for causal attention: every device holds one early and one late chunk.

use sharding_core::placement::{PlacementKey, Ranges, Transition, sharded};
use sharding_core::split::balanced;
use sharding_core::{Place, Placement, Result};
use smallvec::smallvec;
use std::sync::Arc;

/// Of `2k` balanced chunks of a tensor axis, device `i` of `k` holds chunks `i` and `2k - 1 - i`.
#[derive(Debug)]
pub struct Zigzag {
    /// The tensor axis.
    pub axis: usize,
}

impl Placement for Zigzag {
    fn key(&self) -> PlacementKey {
        PlacementKey { name: "stress::Zigzag", words: smallvec![self.axis as u64] }
    }
    fn tensor_axis(&self) -> Option<usize> {
        Some(self.axis)
    }
    fn on_axis(&self, tensor_axis: usize) -> Arc<dyn Placement> {
        Arc::new(Self { axis: tensor_axis })
    }
    fn check(&self, _extent: usize, _ways: usize) -> Result<()> {
        Ok(())
    }
    fn ranges(&self, extent: usize, ways: usize, part: usize) -> Ranges {
        let chunks = [part, 2 * ways - 1 - part].map(|chunk| balanced(extent, 2 * ways, chunk));
        chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect()
    }
    fn transition_to(&self, to: Place, _extent: usize, _ways: usize) -> Transition {
        Transition::between_splits(sharded(self.axis), to)
    }
}
