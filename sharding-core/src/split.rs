//! The balanced split, the one rule for cutting an extent.

use std::ops::Range;

/// The part of `extent` that position `part` of `ways` holds: sizes differ by at most 1, larger first. A part that there
/// is none of is empty, at the end.
///
/// ```
/// use sharding_core::split::balanced;
/// let sizes: Vec<usize> = (0..4).map(|part| balanced(10, 4, part).len()).collect();
/// assert_eq!(sizes, [3, 3, 2, 2]);
/// assert_eq!(balanced(10, 4, usize::MAX), 10..10);
/// ```
pub const fn balanced(extent: usize, ways: usize, part: usize) -> Range<usize> {
    if part >= ways {
        return extent..extent;
    }
    let (size, larger) = (extent / ways, extent % ways);
    let start = part * size + if part < larger { part } else { larger };
    start..start + size + (part < larger) as usize
}

/// The sizes of all parts of a balanced split.
pub fn balanced_sizes(extent: usize, ways: usize) -> impl ExactSizeIterator<Item = usize> {
    (0..ways).map(move |part| balanced(extent, ways, part).len())
}
