//! What `slice` and `buffer_store_slice` take of each axis.

use sharding_core::op::{KeyWriter, PlanKey};
use sharding_core::{Error, ErrorKind, Result, Shape};
use smallvec::SmallVec;
use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

/// What is taken of one tensor axis: a range with a step, or one index, which drops the axis.
///
/// Negative numbers count from the back, ranges are cut to the extent (as in NumPy); a single index must be there.
///
/// ```
/// use sharding_ops::{Index, index};
/// let rows: [Index; 3] = index![1..3, .., -1];
/// assert_eq!(rows[0], Index::from(1..3));
/// assert_eq!(Index::from(..).step(-1).to_string(), "..; step -1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// `start..stop` by `step`; an absent bound is the end in the direction of the step.
    Range {
        /// The first index.
        start: Option<isize>,
        /// The index before which it ends.
        stop: Option<isize>,
        /// The distance of neighbours; not 0.
        step: isize,
    },
    /// One index; the axis is dropped.
    At(isize),
    /// As many whole axes as are left; at most once.
    Ellipsis,
}

impl Index {
    /// The whole axis.
    pub const ALL: Self = Index::Range { start: None, stop: None, step: 1 };

    /// Every `step`-th element of a range; backwards for a negative step. No change to a single index.
    #[must_use]
    pub fn step(self, step: isize) -> Self {
        match self {
            Index::Range { start, stop, .. } => Index::Range { start, stop, step },
            other => other,
        }
    }
}

/// [`Index`]es of several axes: `index![1..3, .., -1]`.
#[macro_export]
macro_rules! index {
    ($($index:expr),* $(,)?) => { [$($crate::Index::from($index)),*] };
}

fn range(start: Option<isize>, stop: Option<isize>) -> Index {
    Index::Range { start, stop, step: 1 }
}
impl From<isize> for Index {
    fn from(index: isize) -> Self {
        Index::At(index)
    }
}
impl From<Range<isize>> for Index {
    fn from(r: Range<isize>) -> Self {
        range(Some(r.start), Some(r.end))
    }
}
impl From<RangeInclusive<isize>> for Index {
    fn from(r: RangeInclusive<isize>) -> Self {
        // An end of -1 includes the last element.
        range(Some(*r.start()), if *r.end() == -1 { None } else { r.end().checked_add(1) })
    }
}
impl From<RangeFrom<isize>> for Index {
    fn from(r: RangeFrom<isize>) -> Self {
        range(Some(r.start), None)
    }
}
impl From<RangeTo<isize>> for Index {
    fn from(r: RangeTo<isize>) -> Self {
        range(None, Some(r.end))
    }
}
impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Self {
        Index::ALL
    }
}

impl PlanKey for Index {
    fn put(&self, key: &mut KeyWriter) {
        match self {
            Index::Range { start, stop, step } => {
                key.word(0);
                key.put(start);
                key.put(stop);
                key.put(step);
            }
            Index::At(index) => {
                key.word(1);
                key.put(index);
            }
            Index::Ellipsis => key.word(2),
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Index::Range { start, stop, step } => {
                start.map_or(Ok(()), |start| write!(f, "{start}"))?;
                f.write_str("..")?;
                stop.map_or(Ok(()), |stop| write!(f, "{stop}"))?;
                if *step == 1 { Ok(()) } else { write!(f, "; step {step}") }
            }
            Index::At(index) => write!(f, "{index}"),
            Index::Ellipsis => f.write_str("..."),
        }
    }
}

/// An [`Index`] resolved against an extent: `len` elements from `start` by `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) start: usize,
    pub(crate) step: isize,
    pub(crate) len: usize,
    /// Whether the axis goes.
    pub(crate) dropped: bool,
}

impl Taken {
    /// Whether it is the whole axis as it is.
    pub(crate) fn is_whole(&self, extent: usize) -> bool {
        !self.dropped && self.start == 0 && self.step == 1 && self.len == extent
    }

    fn new(index: Index, axis: usize, extent: usize) -> Result<Self> {
        // Extents are at most `isize::MAX`; see `Shape::new`.
        let n = extent as isize;
        match index {
            Index::Ellipsis => Ok(Self { start: 0, step: 1, len: extent, dropped: false }),
            Index::At(at) => {
                let found = if at < 0 { at.saturating_add(n) } else { at };
                if !(0..n).contains(&found) {
                    return Err(Error::new(
                        ErrorKind::Argument,
                        format!("index {at} is out of range for axis {axis} of extent {extent}"),
                    )
                    .with_fix(if n == 0 {
                        "an axis of extent 0 has no element to take".to_owned()
                    } else {
                        format!("use an index in {}..{n}", -n)
                    }));
                }
                Ok(Self { start: found as usize, step: 1, len: 1, dropped: true })
            }
            Index::Range { step: 0, .. } => {
                Err(Error::new(ErrorKind::Argument, format!("the step on axis {axis} is 0"))
                    .with_fix("use a step of 1 for every element, or -1 for every element backwards"))
            }
            Index::Range { start, stop, step } => {
                // The bounds of what a start and a stop may be, in the direction of the step.
                let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
                let at =
                    |bound: isize| (if bound < 0 { bound.saturating_add(n) } else { bound }).clamp(low, high);
                let (first, end) = if step > 0 { (low, high) } else { (high, low) };
                let (start, stop) = (start.map_or(first, at), stop.map_or(end, at));
                let distance = if step > 0 { stop - start } else { start - stop };
                let len = distance.max(0).unsigned_abs().div_ceil(step.unsigned_abs());
                Ok(Self { start: if len == 0 { 0 } else { start.unsigned_abs() }, step, len, dropped: false })
            }
        }
    }
}

/// One [`Taken`] per axis of the shape.
///
/// # Errors
/// [`ErrorKind::Argument`] for more indices than axes, two ellipses, an index that is not there, or a step of 0.
pub(crate) fn resolve(shape: &Shape, indices: &[Index]) -> Result<SmallVec<[Taken; 4]>> {
    let ellipses = indices.iter().filter(|index| **index == Index::Ellipsis).count();
    let named = indices.len() - ellipses;
    if ellipses > 1 || named > shape.len() {
        let what = if ellipses > 1 { "more than one ellipsis" } else { "more indices than axes" };
        return Err(Error::new(
            ErrorKind::Argument,
            format!("{what} for the shape {shape} of {} axes", shape.len()),
        )
        .with_fix("give at most one index per axis; axes that are not named are whole"));
    }
    let left = shape.len() - named;
    let mut per_axis: SmallVec<[Index; 4]> = SmallVec::new();
    for index in indices {
        match index {
            Index::Ellipsis => per_axis.extend(std::iter::repeat_n(Index::ALL, left)),
            other => per_axis.push(*other),
        }
    }
    per_axis.resize(shape.len(), Index::ALL);
    let taken = |(axis, (index, extent)): (usize, (Index, &usize))| Taken::new(index, axis, *extent);
    per_axis.into_iter().zip(shape.iter()).enumerate().map(taken).collect()
}

/// The shape of what is taken.
pub(crate) fn taken_shape(taken: &[Taken]) -> Shape {
    taken.iter().filter(|axis| !axis.dropped).map(|axis| axis.len).collect()
}

/// The axis of the result that an axis of the operand becomes, unless it is dropped.
pub(crate) fn result_axis(taken: &[Taken], axis: usize) -> Option<usize> {
    let own = taken.get(axis)?;
    (!own.dropped).then(|| taken.iter().take(axis).filter(|before| !before.dropped).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is taken, element by element, by the definition.
    fn naive(start: Option<isize>, stop: Option<isize>, step: isize, n: isize) -> Vec<isize> {
        let at = |bound: isize| if bound < 0 { bound + n } else { bound };
        let mut i = start.map_or(if step > 0 { 0 } else { n - 1 }, |s| {
            if step > 0 { at(s).max(0) } else { at(s).min(n - 1) }
        });
        let stop = stop.map(at);
        let mut out = Vec::new();
        while (0..n).contains(&i) && stop.is_none_or(|stop| if step > 0 { i < stop } else { i > stop }) {
            out.push(i);
            i += step;
        }
        out
    }

    proptest! {
        #[test]
        fn ranges_take_what_the_definition_says(
            n in 0_usize..9,
            start in proptest::option::of(-12_isize..12),
            stop in proptest::option::of(-12_isize..12),
            step in prop_oneof![-4_isize..0, 1_isize..5],
        ) {
            let taken = Taken::new(Index::Range { start, stop, step }, 0, n).unwrap();
            let got: Vec<isize> =
                (0..taken.len as isize).map(|i| taken.start as isize + i * taken.step).collect();
            prop_assert_eq!(got, naive(start, stop, step, n as isize));
        }
    }

    #[test]
    fn axes_that_are_not_named_are_whole_and_single_indices_drop_theirs() {
        let shape = Shape::from([4, 3, 2]);
        let taken = resolve(&shape, &[Index::At(-1), Index::Ellipsis, Index::from(0..1)]).unwrap();
        assert_eq!(taken_shape(&taken), Shape::from([3, 1]));
        assert_eq!(taken.iter().map(|t| t.start).collect::<Vec<_>>(), [3, 0, 0]);
        assert_eq!([0, 1, 2].map(|axis| result_axis(&taken, axis)), [None, Some(0), Some(1)]);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let shape = Shape::from([4, 0]);
        for indices in [
            &[Index::At(4)][..],
            &[Index::At(-5)],
            &[Index::ALL, Index::At(0)],
            &[Index::ALL, Index::ALL, Index::ALL],
            &[Index::Ellipsis, Index::Ellipsis],
            &[Index::ALL.step(0)],
        ] {
            let error = resolve(&shape, indices).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.fix().is_some());
        }
    }
}
