//! How many bytes are alive on a device: the answer of a backend, and a ledger that backends may keep.

use crate::Device;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of the storages on one device; see [`Backend::memory`](super::Backend::memory).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes alive now.
    pub live: u64,
    /// The most bytes that were alive at once since the last reset.
    pub peak: u64,
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes live, {} at the peak", self.live, self.peak)
    }
}

/// What a backend in host memory counts in: an account for each device that ever held something.
///
/// ```
/// use sharding_core::Device;
/// use sharding_core::backend::MemoryLedger;
/// static LEDGER: MemoryLedger = MemoryLedger::new();
///
/// let held = LEDGER.hold(Device::cpu(), 100);
/// let twice = held.clone();
/// drop(held);
/// assert_eq!((LEDGER.of(Device::cpu()).live, LEDGER.of(Device::cpu()).peak), (100, 200));
/// drop(twice);
/// ```
#[derive(Debug)]
pub struct MemoryLedger(Mutex<BTreeMap<Device, &'static Account>>);

/// One device's bytes.
#[derive(Debug, Default)]
struct Account {
    live: AtomicU64,
    peak: AtomicU64,
}

/// Accounts that this thread used last, found without a lock: a small op allocates on a few devices in turn.
const RECENT: usize = 8;

/// A ledger's address, a device, and its account there.
type Known = (usize, Device, &'static Account);

thread_local! {
    static LAST: [Cell<Option<Known>>; RECENT] = const { [const { Cell::new(None) }; RECENT] };
}

impl MemoryLedger {
    /// A ledger in which nothing is held.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Counts bytes on a device until what is returned is dropped.
    pub fn hold(&'static self, device: Device, bytes: usize) -> HeldBytes {
        HeldBytes::new(self.account(device), bytes as u64)
    }

    /// What is held on a device.
    pub fn of(&'static self, device: Device) -> MemoryUse {
        let account = self.account(device);
        let live = account.live.load(Ordering::Relaxed);
        // Another thread may be between its two counts.
        MemoryUse { live, peak: account.peak.load(Ordering::Relaxed).max(live) }
    }

    /// Makes what is held now the peak of a device.
    pub fn reset_peak(&'static self, device: Device) {
        let account = self.account(device);
        account.peak.store(account.live.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn account(&'static self, device: Device) -> &'static Account {
        let here = std::ptr::from_ref(self).addr();
        let found = LAST.try_with(|last| {
            let slot = last.get(device.slot as usize % RECENT)?;
            match slot.get() {
                Some((ledger, of, account))
                    if ledger == here && of.slot == device.slot && of.same_ordinal(device) =>
                {
                    Some(account)
                }
                _ => {
                    let account = self.shared_account(device);
                    slot.set(Some((here, device, account)));
                    Some(account)
                }
            }
        });
        // At the end of a thread its own list may be gone.
        found.ok().flatten().unwrap_or_else(|| self.shared_account(device))
    }

    /// Accounts live as long as the program: there are as many as devices were ever used.
    fn shared_account(&self, device: Device) -> &'static Account {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.entry(device).or_insert_with(|| Box::leak(Box::default()))
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes that count on a device of a [`MemoryLedger`] until this is dropped; a clone counts again.
#[derive(Debug)]
pub struct HeldBytes {
    account: &'static Account,
    bytes: u64,
}

impl HeldBytes {
    fn new(account: &'static Account, bytes: u64) -> Self {
        let live = account.live.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if live > account.peak.load(Ordering::Relaxed) {
            account.peak.fetch_max(live, Ordering::Relaxed);
        }
        Self { account, bytes }
    }

    /// How many they are.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

impl Clone for HeldBytes {
    fn clone(&self) -> Self {
        Self::new(self.account, self.bytes)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.account.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_one_slot_are_apart_and_threads_count_together() {
        static LEDGER: MemoryLedger = MemoryLedger::new();
        let near = Device::cpu();
        let far = near.with_process(1);
        let alike = near.with_slot(RECENT as u32);
        let kept: Vec<_> = [(near, 1), (far, 10), (alike, 100), (near, 2)]
            .into_iter()
            .map(|(device, bytes)| LEDGER.hold(device, bytes))
            .collect();
        assert_eq!([near, far, alike].map(|device| LEDGER.of(device).live), [3, 10, 100]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| drop(LEDGER.hold(near, 5))));
            }
        });
        let seen = LEDGER.of(near);
        assert!(seen.live == 3 && (8..=23).contains(&seen.peak), "{seen}");
        drop(kept);
        LEDGER.reset_peak(near);
        assert_eq!(LEDGER.of(near), MemoryUse::default());
        assert_eq!(LEDGER.of(far), MemoryUse { live: 0, peak: 10 });
    }
}
