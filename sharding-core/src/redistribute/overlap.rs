//! What two local arrays have in common on one tensor axis.

use smallvec::SmallVec;
use std::ops::Range;

/// Neighbouring indices that two local arrays both hold: where they begin in either, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) from: usize,
    pub(crate) into: usize,
    pub(crate) len: usize,
}

/// The common indices of two lists of ranges, in the order of `old`; ranges that continue each other in both are one
/// run.
pub(crate) fn overlap(old: &[Range<usize>], new: &[Range<usize>]) -> SmallVec<[Run; 2]> {
    let mut runs: SmallVec<[Run; 2]> = SmallVec::new();
    let mut from = 0;
    for a in old {
        let mut into = 0;
        for b in new {
            let (start, end) = (a.start.max(b.start), a.end.min(b.end));
            if start < end {
                let run =
                    Run { from: from + start - a.start, into: into + start - b.start, len: end - start };
                match runs.last_mut() {
                    Some(last) if last.from + last.len == run.from && last.into + last.len == run.into => {
                        last.len += run.len;
                    }
                    _ => runs.push(run),
                }
            }
            into += b.len();
        }
        from += a.len();
    }
    runs
}

/// How many indices two lists of ranges have in common.
pub(super) fn common(old: &[Range<usize>], new: &[Range<usize>]) -> usize {
    let pair = |a: &Range<usize>, b: &Range<usize>| a.end.min(b.end).saturating_sub(a.start.max(b.start));
    old.iter().map(|a| new.iter().map(|b| pair(a, b)).sum::<usize>()).sum()
}

/// How many indices a list of ranges holds.
pub(super) fn total(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(|range| range.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_continue_each_other_are_one() {
        let run = |from, into, len| Run { from, into, len };
        let check = |old: &[(usize, usize)], new: &[(usize, usize)], want: &[Run]| {
            let ranges = |ends: &[(usize, usize)]| ends.iter().map(|(a, b)| *a..*b).collect::<Vec<_>>();
            let (old, new) = (ranges(old), ranges(new));
            assert_eq!(overlap(&old, &new)[..], *want, "{old:?} and {new:?}");
            assert_eq!(common(&old, &new), want.iter().map(|run| run.len).sum::<usize>());
        };
        check(&[(0, 3), (6, 8)], &[(2, 7)], &[run(2, 0, 1), run(3, 4, 1)]);
        check(&[(0, 3), (3, 5)], &[(0, 5)], &[run(0, 0, 5)]);
        check(&[(4, 6), (0, 2)], &[(0, 6)], &[run(0, 4, 2), run(2, 0, 2)]);
        check(&[(0, 3)], &[(3, 5)], &[]);
    }
}
