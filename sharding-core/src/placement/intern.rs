//! Interning of custom placements, so that a [`Place`] stays a small `Copy` value.

use super::check::Known;
use super::{Place, Placement, PlacementKey};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A custom placement at its one address. Reading it takes no lock; it lives as long as the program.
pub struct Interned {
    placement: Arc<dyn Placement>,
    key: PlacementKey,
    tensor_axis: Option<usize>,
    digest: u64,
    pub(super) known: Known,
}

impl std::fmt::Debug for Interned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.placement().fmt(f)
    }
}

impl Interned {
    /// The placement itself.
    pub fn placement(&self) -> &dyn Placement {
        &*self.placement
    }
    /// Its key.
    pub fn key(&self) -> &PlacementKey {
        &self.key
    }
    /// The tensor axis that it localises.
    pub fn tensor_axis(&self) -> Option<usize> {
        self.tensor_axis
    }
    /// A number made of the key.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

static TABLE: OnceLock<Mutex<FxHashMap<PlacementKey, &'static Interned>>> = OnceLock::new();

pub(super) fn intern(placement: Arc<dyn Placement>) -> Place {
    let key = placement.key();
    let table = TABLE.get_or_init(Mutex::default);
    // A panic while the lock is held can only come from allocation; the table is never half-written.
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = table.get(&key) {
        return Place::Custom(known);
    }
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    let tensor_axis = placement.tensor_axis();
    // The top bit keeps the digest apart from those of the built-in placements.
    let digest = hasher.finish() | 1 << 63;
    // Leaked on purpose: the number of distinct placements of a program is small, and a `Place` must be `Copy`.
    let known = Known::default();
    let interned: &'static Interned =
        Box::leak(Box::new(Interned { placement, key: key.clone(), tensor_axis, digest, known }));
    table.insert(key, interned);
    Place::Custom(interned)
}
