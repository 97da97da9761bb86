//! Sets of mesh axes, and the balanced cuts that they make.

use crate::{DeviceMesh, MAX_MESH_AXES};

/// A set of mesh axes: bit `a` is mesh axis `a`. A mesh has at most eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AxisSet(u8);

impl AxisSet {
    pub(super) const EMPTY: Self = Self(0);

    pub(super) const fn of(axis: usize) -> Self {
        Self(if axis < MAX_MESH_AXES { 1 << axis } else { 0 })
    }
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub(super) const fn len(self) -> u32 {
        self.0.count_ones()
    }
    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    pub(super) const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    pub(super) const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
    pub(super) const fn contains(self, axis: usize) -> bool {
        !self.and(Self::of(axis)).is_empty()
    }
    /// Without its last axis.
    pub(super) const fn without_last(self) -> Self {
        if self.0 == 0 { self } else { Self(self.0 & !(1 << (7 - self.0.leading_zeros()))) }
    }
    /// Whether `whole` begins with these axes, in mesh order.
    pub(super) const fn is_prefix_of(self, whole: Self) -> bool {
        let rest = whole.0 & !self.0;
        self.is_within(whole) && rest.trailing_zeros() + self.0.leading_zeros() >= 8
    }
    /// The axes, ascending.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> + Clone {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let axis = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (axis < MAX_MESH_AXES).then_some(axis)
        })
    }
    /// All its subsets but the empty one, the whole first.
    pub(super) fn subsets(self) -> impl Iterator<Item = Self> {
        let mut next = self.0;
        std::iter::from_fn(move || {
            let set = next;
            next = set.wrapping_sub(1) & self.0;
            (set != 0).then_some(Self(set))
        })
    }
}

/// The size of each mesh axis; 1 beyond the last.
#[derive(Clone, Copy)]
pub(super) struct Sizes([usize; MAX_MESH_AXES]);

impl Sizes {
    pub(super) fn of(mesh: &DeviceMesh) -> Self {
        let mut sizes = [1; MAX_MESH_AXES];
        sizes.iter_mut().zip(mesh.shape()).for_each(|(slot, size)| *slot = *size);
        Self(sizes)
    }
    pub(super) fn get(&self, axis: usize) -> usize {
        self.0.get(axis).copied().unwrap_or(1)
    }
    /// The number of devices along several axes together; it divides the number of devices of the mesh.
    pub(super) fn ways(&self, set: AxisSet) -> usize {
        set.iter().map(|axis| self.get(axis)).product()
    }
}

/// Whether the balanced cut in `outer * a` parts and the one in `outer * b` parts agree at each of the `outer`
/// boundaries, so that what lies between two of those holds the same indices in both.
pub(super) fn nests(extent: usize, outer: usize, a: usize, b: usize) -> bool {
    let (over_a, over_b) = (extent % (outer * a), extent % (outer * b));
    if over_a == 0 && over_b == 0 {
        return true;
    }
    let (size_a, size_b) = (extent / (outer * a), extent / (outer * b));
    let same = |f: usize| f * a * size_a + (f * a).min(over_a) == f * b * size_b + (f * b).min(over_b);
    // As functions of the boundary's number both starts are linear between these points (and both end at `extent`):
    // they agree everywhere if they agree there.
    same(over_a / a) && same(over_a.div_ceil(a)) && same(over_b / b) && same(over_b.div_ceil(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::balanced;

    #[test]
    fn prefixes_and_subsets() {
        let set = |axes: &[usize]| axes.iter().fold(AxisSet::EMPTY, |set, axis| set.or(AxisSet::of(*axis)));
        assert!(set(&[0, 2]).is_prefix_of(set(&[0, 2, 3])));
        assert!(set(&[]).is_prefix_of(set(&[7])) && set(&[7]).is_prefix_of(set(&[7])));
        assert!(!set(&[0, 3]).is_prefix_of(set(&[0, 2, 3])) && !set(&[1]).is_prefix_of(set(&[0])));
        assert_eq!(set(&[1, 4, 7]).iter().collect::<Vec<_>>(), [1, 4, 7]);
        assert_eq!(set(&[1, 4]).subsets().collect::<Vec<_>>(), [set(&[1, 4]), set(&[4]), set(&[1])]);
        assert_eq!(set(&[1, 4]).without_last(), set(&[1]));
    }

    #[test]
    fn nesting_by_five_points_is_nesting_everywhere() {
        for outer in 1..6 {
            for (a, b) in (1..6).flat_map(|a| (1..6).map(move |b| (a, b))) {
                for extent in 0..80 {
                    let start = |f: usize, inner: usize| {
                        if f == outer { extent } else { balanced(extent, outer * inner, f * inner).start }
                    };
                    let everywhere = (0..=outer).all(|f| start(f, a) == start(f, b));
                    assert_eq!(
                        nests(extent, outer, a, b),
                        everywhere,
                        "{extent} over {outer}x{a} and {outer}x{b}"
                    );
                }
            }
        }
    }
}
