//! A bounded cache by hashes.

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use std::collections::HashMap;

type Generation<E> = HashMap<u64, SmallVec<[E; 1]>, FxBuildHasher>;

/// Entries by their hash, in two generations: a full one grows old, and is dropped when the next one is full. What is asked
/// for stays.
pub(crate) struct Generations<E> {
    young: Generation<E>,
    /// How many entries are young: hashes may be shared.
    count: usize,
    old: Generation<E>,
    /// Entries of one generation; at most twice as many are kept.
    most: usize,
}

impl<E> Generations<E> {
    /// An empty cache of so many entries per generation.
    pub(crate) fn new(most: usize) -> Self {
        Self { young: Generation::default(), count: 0, old: Generation::default(), most }
    }

    /// What `take` gives of the entry that fits.
    pub(crate) fn get<T>(
        &mut self,
        hash: u64,
        fits: impl Fn(&E) -> bool,
        take: impl Fn(&E) -> T,
    ) -> Option<T> {
        if let Some(entry) = self.young.get(&hash).and_then(|bucket| bucket.iter().find(|entry| fits(entry)))
        {
            return Some(take(entry));
        }
        let bucket = self.old.get_mut(&hash)?;
        let at = bucket.iter().position(fits)?;
        let entry = bucket.swap_remove(at);
        let taken = take(&entry);
        self.keep(hash, entry);
        Some(taken)
    }

    /// Keeps an entry.
    pub(crate) fn keep(&mut self, hash: u64, entry: E) {
        if self.count >= self.most {
            self.old = std::mem::take(&mut self.young);
            self.count = 0;
        }
        self.count += 1;
        self.young.entry(hash).or_default().push(entry);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.count = 0;
        self.old.clear();
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.values().chain(self.old.values()).map(SmallVec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        // Hashes of their own, or shared by many.
        for hashes in [1000, 5, 1] {
            let mut cache = Generations::new(8);
            let mut get = |key: u64, keep: bool| {
                if keep {
                    cache.keep(key % hashes, key);
                }
                let found = cache.get(key % hashes, |own| *own == key, |own| *own);
                assert!(found.is_none_or(|found| found == key) && cache.len() <= 16, "{key}");
                found.is_some()
            };
            for key in 1..1000 {
                assert!(get(key, true) && get(1, false), "{key} of {hashes} hashes");
            }
            assert!(!get(2, false) && get(999, false));
            cache.clear();
            assert_eq!((cache.len(), cache.get(1, |own| *own == 1, |own| *own)), (0, None));
        }
    }
}
