//! Sets of mesh axes, which of them split which tensor axis, and the balanced cuts that they make.

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
    /// Those beyond an axis.
    pub(super) const fn after(self, axis: usize) -> Self {
        Self(if axis + 1 < MAX_MESH_AXES { self.0 & (u8::MAX << (axis + 1)) } else { 0 })
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

/// Two placements per mesh axis can name at most so many tensor axes.
pub(super) const MAX_SPLIT: usize = 2 * MAX_MESH_AXES;

/// Which mesh axes split each of so many tensor axes: a byte each, so that one is read and two are joined in one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Splits([u8; MAX_SPLIT]);

impl Splits {
    pub(super) fn get(&self, split: usize) -> AxisSet {
        AxisSet(self.0.get(split).copied().unwrap_or(0))
    }
    /// These axes and no others split that tensor axis.
    pub(super) fn only(split: usize, axes: AxisSet) -> Self {
        debug_assert!(split < MAX_SPLIT, "no room for {split}");
        let mut splits = Self::default();
        if let Some(slot) = splits.0.get_mut(split) {
            *slot = axes.0;
        }
        splits
    }
    const fn bits(self) -> u128 {
        u128::from_ne_bytes(self.0)
    }
    pub(super) const fn or(self, other: Self) -> Self {
        Self((self.bits() | other.bits()).to_ne_bytes())
    }
    pub(super) const fn minus(self, other: Self) -> Self {
        Self((self.bits() & !other.bits()).to_ne_bytes())
    }
    /// With `axes` as they are in another one, the rest as here.
    pub(super) const fn with(self, axes: AxisSet, other: Self) -> Self {
        let theirs = u128::from_ne_bytes([axes.0; MAX_SPLIT]);
        Self((self.bits() & !theirs | other.bits() & theirs).to_ne_bytes())
    }
    /// The mesh axes that split anything.
    pub(super) const fn all(self) -> AxisSet {
        let half = (self.bits() | self.bits() >> 64) as u64;
        let half = half | half >> 32;
        let half = half | half >> 16;
        AxisSet((half | half >> 8) as u8)
    }
}

/// What is known of each set of mesh axes: for the sets of the first four axes, and for those of the last four.
#[derive(Clone, Copy)]
pub(super) struct BySet<T>([[T; 16]; 2]);

impl<T: Copy> BySet<T> {
    /// From what is known of each axis, and how that of several is put together.
    pub(super) fn of(each: [T; MAX_MESH_AXES], none: T, join: impl Fn(T, T) -> T) -> Self {
        let mut all = [[none; 16]; 2];
        for (known, each) in all.iter_mut().zip(each.chunks(4)) {
            let mut n = 1;
            for one in each {
                let (before, with) = known.split_at_mut(n);
                before.iter().zip(with).for_each(|(before, with)| *with = join(*before, *one));
                n *= 2;
            }
        }
        Self(all)
    }
    /// Of the axes of a set that are among the first four, and of those among the last four.
    pub(super) fn halves(&self, set: AxisSet) -> [T; 2] {
        let [[low, ..], [high, ..]] = &self.0;
        let [lows, highs] = &self.0;
        [
            lows.get(usize::from(set.0 & 15)).copied().unwrap_or(*low),
            highs.get(usize::from(set.0 >> 4)).copied().unwrap_or(*high),
        ]
    }
}

/// The size of each mesh axis; 1 beyond the last.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    sizes: [usize; MAX_MESH_AXES],
    products: BySet<usize>,
    /// The same, to divide by.
    divisors: BySet<f64>,
}

impl Sizes {
    pub(super) fn of(mesh: &DeviceMesh) -> Self {
        let mut sizes = [1; MAX_MESH_AXES];
        sizes.iter_mut().zip(mesh.shape()).for_each(|(slot, size)| *slot = *size);
        let products = BySet::of(sizes, 1, |a, b| a * b);
        let divisors = BySet::of(sizes.map(|size| size as f64), 1.0, |a, b| a * b);
        Self { sizes, products, divisors }
    }
    pub(super) fn get(&self, axis: usize) -> usize {
        self.sizes.get(axis).copied().unwrap_or(1)
    }
    /// The number of devices along several axes together; it divides the number of devices of the mesh.
    pub(super) fn ways(&self, set: AxisSet) -> usize {
        let [low, high] = self.products.halves(set);
        low * high
    }
    /// The same, to divide by.
    pub(super) fn divisor(&self, set: AxisSet) -> f64 {
        let [low, high] = self.divisors.halves(set);
        low * high
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
        assert_eq!(
            [0, 1, 6, 7].map(|axis| set(&[1, 4, 7]).after(axis)),
            [set(&[1, 4, 7]), set(&[4, 7]), set(&[7]), set(&[])]
        );
    }

    #[test]
    fn splits_are_kept_by_tensor_axis() {
        let (a, b) = (AxisSet::of(0), AxisSet::of(7));
        let splits = Splits::only(0, a).or(Splits::only(MAX_SPLIT - 1, b)).or(Splits::only(3, a.or(b)));
        assert_eq!([0, 1, 3, MAX_SPLIT - 1].map(|split| splits.get(split)), [a, AxisSet::EMPTY, a.or(b), b]);
        assert_eq!(splits.all(), a.or(b));
        let rest = splits.minus(Splits::only(3, a));
        assert_eq!((rest.get(0), rest.get(3)), (a, b));
        assert_eq!(rest.minus(Splits::only(0, a)).all(), b);
        let other = Splits::only(1, a).or(Splits::only(2, b));
        assert_eq!(
            splits.with(a, other),
            Splits::only(1, a).or(Splits::only(MAX_SPLIT - 1, b)).or(Splits::only(3, b))
        );
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
