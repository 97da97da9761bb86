//! The sizes of the pieces that `split` cuts.

use sharding_core::op::{KeyWriter, PlanKey};
use sharding_core::{Error, ErrorKind, Result};
use smallvec::SmallVec;

/// The sizes of the pieces of an axis: one size for all of them, or each its own.
///
/// ```
/// use sharding_ops::SplitSizes;
/// assert_eq!(SplitSizes::from(3), SplitSizes::Each(3));
/// assert!(matches!(SplitSizes::from([2, 4]), SplitSizes::Sizes(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SplitSizes {
    /// Pieces of this size, at least 1; the last is smaller if it does not divide the extent. An axis of extent 0 is one
    /// piece.
    Each(usize),
    /// Pieces of these sizes, which add up to the extent; 0 is a size.
    Sizes(SmallVec<[usize; 4]>),
}

impl SplitSizes {
    /// The size of every piece of an axis of this extent.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for a size of 0 for all, or sizes that do not add up to the extent.
    pub(crate) fn of(&self, axis: usize, extent: usize) -> Result<SmallVec<[usize; 4]>> {
        match self {
            SplitSizes::Each(0) => {
                Err(Error::new(ErrorKind::Argument, format!("pieces of size 0 never cover axis {axis}"))
                    .with_fix("use a size of at least 1, or write every size: [2, 0, 4].into()"))
            }
            SplitSizes::Each(size) => {
                let pieces = extent.div_ceil(*size).max(1);
                countable(axis, pieces)?;
                Ok((0..pieces).map(|i| (extent - i * size).min(*size)).collect())
            }
            SplitSizes::Sizes(sizes) => {
                let sum = sizes.iter().try_fold(0_usize, |sum, size| sum.checked_add(*size));
                if sum == Some(extent) {
                    return Ok(sizes.clone());
                }
                let all = sum.map_or_else(|| "more than fits".to_owned(), |sum| sum.to_string());
                Err(Error::new(
                    ErrorKind::Argument,
                    format!(
                        "the sizes {:?} add up to {all}, axis {axis} has extent {extent}",
                        sizes.as_slice()
                    ),
                )
                .with_fix("use sizes whose sum is the extent, or one size for all pieces"))
            }
        }
    }
}

/// The most pieces of one cut: each is a tensor of its own.
const MOST: usize = 1 << 20;

/// Refuses more pieces than can be handed out.
pub(crate) fn countable(axis: usize, pieces: usize) -> Result<()> {
    if pieces <= MOST {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Argument,
        format!("axis {axis} would be cut in {pieces} pieces, more than {MOST}"),
    )
    .with_fix("use fewer pieces; slice(&x, ..) takes one of them"))
}

impl PlanKey for SplitSizes {
    fn put(&self, key: &mut KeyWriter) {
        match self {
            SplitSizes::Each(size) => {
                key.word(0);
                key.put(size);
            }
            SplitSizes::Sizes(sizes) => {
                key.word(1);
                key.put(sizes);
            }
        }
    }
}

impl From<usize> for SplitSizes {
    fn from(size: usize) -> Self {
        SplitSizes::Each(size)
    }
}
impl From<&[usize]> for SplitSizes {
    fn from(sizes: &[usize]) -> Self {
        SplitSizes::Sizes(sizes.into())
    }
}
impl<const N: usize> From<[usize; N]> for SplitSizes {
    fn from(sizes: [usize; N]) -> Self {
        SplitSizes::Sizes(sizes.as_slice().into())
    }
}
impl<const N: usize> From<&[usize; N]> for SplitSizes {
    fn from(sizes: &[usize; N]) -> Self {
        SplitSizes::Sizes(sizes.as_slice().into())
    }
}
impl From<Vec<usize>> for SplitSizes {
    fn from(sizes: Vec<usize>) -> Self {
        SplitSizes::Sizes(sizes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_size_covers_the_extent_with_full_pieces_first(extent in 0_usize..40, size in 1_usize..12) {
            let sizes = SplitSizes::Each(size).of(0, extent).unwrap();
            prop_assert_eq!(sizes.iter().sum::<usize>(), extent);
            let (last, full) = sizes.split_last().unwrap();
            prop_assert!(full.iter().all(|own| *own == size) && *last <= size);
            prop_assert_eq!(*last == 0, extent == 0);
        }
    }

    #[test]
    fn sizes_must_add_up() {
        for sizes in
            [SplitSizes::Each(0), [1, 2].into(), [usize::MAX, 5].into(), SplitSizes::from(Vec::new())]
        {
            assert_eq!(sizes.of(0, 4).unwrap_err().kind(), ErrorKind::Argument);
        }
        assert_eq!(SplitSizes::from([0, 4, 0]).of(0, 4).unwrap().as_slice(), [0, 4, 0]);
        assert!(SplitSizes::from(Vec::new()).of(0, 0).unwrap().is_empty());
    }
}
