//! The balanced split, the one rule for cutting an extent.

use std::ops::Range;

/// The part of `extent` that position `part` of `ways` holds: sizes differ by at most 1, larger first.
///
/// ```
/// use sharding_core::split::balanced;
/// let sizes: Vec<usize> = (0..4).map(|part| balanced(10, 4, part).len()).collect();
/// assert_eq!(sizes, [3, 3, 2, 2]);
/// ```
pub const fn balanced(extent: usize, ways: usize, part: usize) -> Range<usize> {
    if ways == 0 {
        return 0..0;
    }
    let (size, larger) = (extent / ways, extent % ways);
    let start = part * size + if part < larger { part } else { larger };
    start..start + size + (part < larger) as usize
}

/// The sizes of all parts of a balanced split.
pub fn balanced_sizes(extent: usize, ways: usize) -> impl ExactSizeIterator<Item = usize> {
    (0..ways).map(move |part| balanced(extent, ways, part).len())
}
