//! What a placement of the open trait promises, checked before anything is laid out by it: placements are foreign code.

use super::{Interleaved, Interned, Placement, Ragged, Ranges};
use crate::dispatch::guarded;
use crate::{Error, ErrorKind, Result};
use rustc_hash::FxHashSet;
use std::any::Any;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Up to so many parts are asked for their ranges; of more, so many.
const MOST_PARTS: usize = 4096;

/// So many extents and numbers of devices are remembered for each placement; beyond, they are asked again.
const MOST_KNOWN: usize = 1024;

/// Extents and numbers of devices for which a placement has been found to keep its promise: its answers are pure.
#[derive(Default)]
pub(super) struct Known(Mutex<FxHashSet<(usize, usize)>>);

impl Interned {
    /// Whether it can place an axis of this extent over so many devices, by its own word and by its ranges: over all devices
    /// they cover every index once (above 4096 devices a part of them is asked).
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if it says that it cannot, or if its ranges leave an index out, hold one twice or go beyond the
    /// extent; [`ErrorKind::Kernel`] if it panics.
    pub fn check(&self, extent: usize, ways: usize) -> Result<()> {
        let own: &dyn Any = self.placement();
        if own.is::<Ragged>() || own.is::<Interleaved>() {
            // Ours: what they check is all that can be wrong.
            return self.placement().check(extent, ways);
        }
        let known = || self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&(extent, ways)) {
            return Ok(());
        }
        // Not under the lock: it is foreign code, which may come back here.
        let asked = || {
            self.placement().check(extent, ways)?;
            covers(self.placement(), extent, ways)
        };
        guarded("the placement", asked).map_err(|error| match error.kind() {
            ErrorKind::Kernel => {
                error.with_fix(format!("mend {} for {extent} indices over {ways} devices", self.key().name))
            }
            _ => error,
        })?;
        let mut known = known();
        if known.len() < MOST_KNOWN {
            known.insert((extent, ways));
        }
        Ok(())
    }
}

fn covers(placement: &dyn Placement, extent: usize, ways: usize) -> Result<()> {
    // All of few; of many some, so far apart that the first and the last are among them.
    let asked = ways.min(MOST_PARTS);
    let part = |i: usize| if asked == ways { i } else { i * (ways - 1) / (asked - 1) };
    let of = |i: usize| -> Ranges { placement.ranges(extent, ways, part(i)) };
    let mut held: Vec<Range<usize>> = Vec::new();
    for range in (0..asked).flat_map(of) {
        if range.start > range.end || range.end > extent {
            return Err(broken(placement, extent, ways, &format!("gives the range {range:?}")));
        }
        if !range.is_empty() {
            held.push(range);
        }
    }
    held.sort_unstable_by_key(|range| range.start);
    let mut next = 0;
    for range in &held {
        if range.start < next {
            return Err(broken(placement, extent, ways, &format!("holds index {} twice", range.start)));
        }
        if range.start > next && asked == ways {
            break;
        }
        next = range.end;
    }
    if next < extent && asked == ways {
        return Err(broken(placement, extent, ways, &format!("leaves index {next} out")));
    }
    Ok(())
}

fn broken(placement: &dyn Placement, extent: usize, ways: usize, how: &str) -> Error {
    Error::new(ErrorKind::Mapping, format!("{placement:?} {how} of {extent} indices over {ways} devices"))
        .with_fix("let Placement::ranges give every index below the extent to exactly one device, in ranges from low to high")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use crate::placement::{Interleaved, PlacementKey, Ragged, Transition};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What an extent, a number of devices and a part get.
    type Answer = fn(usize, usize, usize) -> Ranges;

    /// Gives each part what a function says.
    struct Says(&'static str, Answer);

    static ASKED: AtomicUsize = AtomicUsize::new(0);

    impl std::fmt::Debug for Says {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Placement for Says {
        fn key(&self) -> PlacementKey {
            PlacementKey { name: self.0, words: smallvec::smallvec![] }
        }
        fn tensor_axis(&self) -> Option<usize> {
            Some(0)
        }
        fn on_axis(&self, _: usize) -> Arc<dyn Placement> {
            Arc::new(Self(self.0, self.1))
        }
        fn check(&self, _: usize, _: usize) -> Result<()> {
            ASKED.fetch_add(usize::from(self.0 == "Counted"), Ordering::Relaxed);
            Ok(())
        }
        fn ranges(&self, extent: usize, ways: usize, part: usize) -> Ranges {
            (self.1)(extent, ways, part)
        }
        fn transition_to(&self, _: Place, _: usize, _: usize) -> Transition {
            Transition::Infeasible
        }
    }

    fn check(place: Place, extent: usize, ways: usize) -> Result<()> {
        let Place::Custom(custom) = place else { panic!("{place} is built in") };
        custom.check(extent, ways)
    }

    fn one(range: Range<usize>) -> Ranges {
        smallvec::smallvec![range]
    }

    #[test]
    fn what_covers_every_index_once_is_accepted() {
        let even = Place::custom(Says("Even", |extent, ways, part| {
            (0..extent).filter(|index| index % ways == part).map(|index| index..index + 1).collect()
        }));
        for (extent, ways) in [(7, 3), (0, 2), (1, 5), (6, 1), (5000, 5000)] {
            check(even, extent, ways).unwrap();
        }
        // Those of this crate are not asked by every layout, and here.
        for ours in [&Ragged::new(0, [3, 0, 4]) as &dyn Placement, &Interleaved::new(0, [3, 0, 4])] {
            covers(ours, 7, 3).unwrap();
        }
    }

    #[test]
    fn what_does_not_is_refused_with_how() {
        let ranges: [(&str, Answer, &str); 6] = [
            (
                "Beyond",
                |extent, _, _| one(0..extent + 3),
                "Beyond gives the range 0..9 of 6 indices over 2 devices",
            ),
            ("Twice", |extent, _, _| one(0..extent), "Twice holds index 0 twice"),
            ("Nothing", |_, _, _| Ranges::new(), "Nothing leaves index 0 out"),
            ("Gap", |_, _, part| one(part * 3..part * 3 + 2), "Gap leaves index 2 out"),
            ("Short", |_, _, part| one(part * 2..part * 2 + 2), "Short leaves index 4 out"),
            #[allow(clippy::reversed_empty_ranges, reason = "what a placement may get wrong")]
            ("Backwards", |_, _, _| one(6..0), "Backwards gives the range 6..0"),
        ];
        for (name, ranges, want) in ranges {
            let error = check(Place::custom(Says(name, ranges)), 6, 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mapping, "{error}");
            assert!(error.to_string().starts_with(want) && error.fix().is_some(), "{error}");
        }
        let panics = Place::custom(Says("Panics", |_, _, _| panic!("no ranges today")));
        let error = check(panics, 6, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Kernel);
        assert_eq!(error.message(), "the placement panicked: no ranges today");
    }

    /// A million parts are not all asked, and what is wrong with the last is still found.
    #[test]
    fn of_very_many_parts_some_are_asked() {
        let late = |extent: usize, ways: usize, part: usize| {
            if part + 1 == ways { one(0..extent + 1) } else { one(part..part + 1) }
        };
        assert!(check(Place::custom(Says("Late", late)), 1 << 20, 1 << 20).is_err());
    }

    #[test]
    fn an_answer_is_remembered() {
        let counted = Place::custom(Says("Counted", |extent, ways, part| {
            one(crate::split::balanced(extent, ways, part))
        }));
        for _ in 0..3 {
            check(counted, 10, 4).unwrap();
            check(counted, 11, 4).unwrap();
        }
        assert_eq!(ASKED.load(Ordering::Relaxed), 2);
    }
}
