//! The iota form of a tile assignment: devices by arithmetic, without a list.

use smallvec::SmallVec;

/// A few sizes or axes.
pub(super) type Axes = SmallVec<[usize; 4]>;

/// A digit of a number: how many values it has, and how far apart the devices of neighbouring values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub(super) size: usize,
    pub(super) stride: usize,
}

/// A permutation of `0..n`: a position, written as a number of mixed radix (the outermost digit first), has the device
/// that is the sum of its digits times their strides.
///
/// The strides are those of some row-major shape, so every device comes exactly once. Digits of size 1 are left out
/// and neighbours that count through are one, so equal permutations are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Runs(SmallVec<[Run; 4]>);

impl Runs {
    /// `runs`, whose strides must be those of a row-major shape with these sizes.
    pub(super) fn new(runs: impl IntoIterator<Item = Run>) -> Self {
        let mut canonical: SmallVec<[Run; 4]> = SmallVec::new();
        for run in runs.into_iter().filter(|run| run.size != 1) {
            match canonical.last_mut() {
                Some(outer) if outer.stride == run.size.saturating_mul(run.stride) => {
                    *outer = Run { size: outer.size * run.size, stride: run.stride };
                }
                _ => canonical.push(run),
            }
        }
        Self(canonical)
    }

    /// `0..n` as an array of shape `reshape` with its axes in the order `perm`, which names each axis once. The product of
    /// `reshape` must fit.
    pub(super) fn of_iota(reshape: &[usize], perm: &[usize]) -> Self {
        let strides = strides(reshape);
        let run = |axis: &usize| {
            Some(Run { size: reshape.get(*axis).copied()?, stride: strides.get(*axis).copied()? })
        };
        Self::new(perm.iter().filter_map(run))
    }

    /// The list in this form, if it has one.
    pub(super) fn of_list(devices: &[usize]) -> Option<Self> {
        let n = devices.len();
        let mut runs: SmallVec<[Run; 4]> = SmallVec::new();
        let mut inner = 1;
        // The longest stretch that counts by one stride is the innermost digit; then the same over its multiples.
        while inner < n {
            let stride = *devices.get(inner)?;
            let steps = |size: &usize| devices.get(inner * *size) == Some(&(stride * *size));
            let size = (1..).take_while(steps).last()? + 1;
            runs.push(Run { size, stride });
            inner = inner.checked_mul(size)?;
        }
        runs.reverse();
        let runs = Self::new(runs);
        let same = inner == n && devices.iter().enumerate().all(|(at, device)| runs.device(at) == *device);
        same.then_some(runs)
    }

    /// The device at a position.
    pub(super) fn device(&self, position: usize) -> usize {
        let digit = |(rest, device): (usize, usize), run: &Run| {
            (rest / run.size, device + rest % run.size * run.stride)
        };
        self.0.iter().rev().fold((position, 0), digit).1
    }

    /// The position of a device.
    pub(super) fn position(&self, device: usize) -> usize {
        self.0.iter().fold(0, |position, run| position * run.size + device / run.stride % run.size)
    }

    /// The shape that `0..n` is given, and the order in which its axes are read.
    pub(super) fn iota(&self) -> (Axes, Axes) {
        if self.0.is_empty() {
            return (Axes::from_elem(1, 1), Axes::from_elem(0, 1));
        }
        let mut by_stride: SmallVec<[(usize, &Run); 4]> = self.0.iter().enumerate().collect();
        by_stride.sort_unstable_by_key(|(_, run)| std::cmp::Reverse(run.stride));
        let reshape = by_stride.iter().map(|(_, run)| run.size).collect();
        let place = |of: usize| by_stride.iter().position(|(at, _)| *at == of).unwrap_or(of);
        (reshape, (0..self.0.len()).map(place).collect())
    }

    /// The digits of each dimension, cut where dimensions end; `None` where a dimension ends within a digit that does not
    /// divide there.
    pub(super) fn grouped(&self, dims: &[usize]) -> Option<Vec<SmallVec<[Run; 2]>>> {
        let mut runs = self.0.iter().rev().copied();
        let mut open = None;
        let mut groups = Vec::with_capacity(dims.len());
        for dim in dims.iter().rev() {
            let mut left = *dim;
            let mut group = SmallVec::new();
            while left > 1 {
                let run: Run = open.take().or_else(|| runs.next())?;
                let inner = run.size.min(left);
                if !run.size.is_multiple_of(inner) || !left.is_multiple_of(inner) {
                    return None;
                }
                group.push(Run { size: inner, stride: run.stride });
                if run.size > inner {
                    open = Some(Run { size: run.size / inner, stride: run.stride * inner });
                }
                left /= inner;
            }
            group.reverse();
            groups.push(group);
        }
        groups.reverse();
        Some(groups)
    }
}

/// Row-major strides.
pub(super) fn strides(shape: &[usize]) -> Axes {
    let mut step = 1_usize;
    let mut strides: Axes = shape
        .iter()
        .rev()
        .map(|size| {
            let stride = step;
            step = step.saturating_mul(*size);
            stride
        })
        .collect();
    strides.reverse();
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn permutation() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
        proptest::collection::vec(1_usize..5, 0..5).prop_flat_map(|reshape| {
            let perm: Vec<usize> = (0..reshape.len()).collect();
            (Just(reshape), Just(perm).prop_shuffle())
        })
    }

    /// The same by counting through every index.
    fn naive(reshape: &[usize], perm: &[usize]) -> Vec<usize> {
        let strides = strides(reshape);
        perm.iter().fold(vec![0], |devices, axis| {
            let stride = strides[*axis];
            let digit = |device: usize| (0..reshape[*axis]).map(move |c| device + c * stride);
            devices.into_iter().flat_map(digit).collect::<Vec<_>>()
        })
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_counting((reshape, perm) in permutation()) {
            let want = naive(&reshape, &perm);
            let runs = Runs::of_iota(&reshape, &perm);
            for (position, device) in want.iter().enumerate() {
                prop_assert_eq!(runs.device(position), *device);
                prop_assert_eq!(runs.position(*device), position);
            }
            // Equal permutations are equal values, however they were made.
            prop_assert_eq!(Runs::of_list(&want), Some(runs.clone()));
            let (reshape, perm) = runs.iota();
            prop_assert_eq!(Runs::of_iota(&reshape, &perm), runs);
        }

        #[test]
        fn other_lists_have_no_such_form(list in Just((0..8).collect::<Vec<usize>>()).prop_shuffle()) {
            match Runs::of_list(&list) {
                Some(runs) => prop_assert!(list.iter().enumerate().all(|(at, device)| runs.device(at) == *device)),
                // Of 8 devices every form is a permutation of [2, 2, 2], [2, 4] or [4, 2].
                None => for perm in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                    prop_assert_ne!(naive(&[2, 2, 2], &perm), list.clone());
                },
            }
        }

        #[test]
        fn groups_are_the_same_digits((reshape, perm) in permutation(), cut in any::<prop::sample::Index>()) {
            let runs = Runs::of_iota(&reshape, &perm);
            let n: usize = reshape.iter().product();
            let cuts: Vec<usize> = (1..=n).filter(|cut| n.is_multiple_of(*cut)).collect();
            let cut = cuts[cut.index(cuts.len())];
            if let Some(groups) = runs.grouped(&[n / cut, cut]) {
                let size = |group: &SmallVec<[Run; 2]>| group.iter().map(|run| run.size).product::<usize>();
                prop_assert_eq!((size(&groups[0]), size(&groups[1])), (n / cut, cut));
                prop_assert_eq!(Runs::new(groups.into_iter().flatten()), runs);
            }
        }
    }

    #[test]
    fn canonical_forms_are_those_of_the_reference() {
        let check = |reshape: &[usize], perm: &[usize], want: (&[usize], &[usize])| {
            let (reshape, perm) = Runs::of_iota(reshape, perm).iota();
            assert_eq!((&reshape[..], &perm[..]), want);
        };
        check(&[2, 2, 2, 2], &[3, 1, 2, 0], (&[2, 4, 2], &[2, 1, 0]));
        check(&[2, 2, 2], &[0, 1, 2], (&[8], &[0]));
        check(&[2, 1, 4], &[2, 1, 0], (&[2, 4], &[1, 0]));
        check(&[1], &[0], (&[1], &[0]));
        // A dimension may end within a digit, where it divides.
        let groups = Runs::of_iota(&[2, 6], &[1, 0]).grouped(&[3, 4]).unwrap();
        let run = |size, stride| Run { size, stride };
        assert_eq!(groups[0].as_slice(), [run(3, 2)]);
        assert_eq!(groups[1].as_slice(), [run(2, 1), run(2, 6)]);
        assert_eq!(Runs::of_iota(&[3, 2, 3], &[2, 1, 0]).grouped(&[2, 9]), None);
    }
}
