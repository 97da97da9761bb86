//! Which part every device of an order holds, where something is cut into parts.

use smallvec::SmallVec;
use std::sync::Arc;

/// A function from the positions of a device order to the parts `0..ways`.
///
/// Equality is of the functions. Those of meshes are kept as digits of the position (a size and a stride each) in a
/// canonical form, so that they cost no list, and comparing two costs no walk over the devices.
#[derive(Clone, Debug)]
pub struct Parts {
    ways: usize,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    // Size and stride of every digit, the most significant first: no size is 1, and no digit continues the one
    // before it. Two such lists are equal exactly if the functions are: the smallest position of another part gives the
    // smallest stride and its weight, the first position where counting stops gives the size, and so on upwards.
    Digits(SmallVec<[(usize, usize); 2]>),
    Listed(Arc<[usize]>),
}

impl Parts {
    /// One part, which everybody holds.
    pub fn whole() -> Self {
        Self { ways: 1, form: Form::Digits(SmallVec::new()) }
    }

    /// Parts that digits of the position count: `position / stride % size` for each, the most significant first. A stride
    /// of 0 counts as 1.
    pub fn digits(digits: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut kept: SmallVec<[(usize, usize); 2]> = SmallVec::new();
        let mut ways = 1_usize;
        for (size, stride) in digits.into_iter().filter(|(size, _)| *size > 1) {
            let stride = stride.max(1);
            ways = ways.saturating_mul(size);
            match kept.last_mut() {
                // The digit before counts in units of this one's whole cycle.
                Some((above, step)) if *step == stride.saturating_mul(size) => {
                    *above = above.saturating_mul(size);
                    *step = stride;
                }
                _ => kept.push((size, stride)),
            }
        }
        Self { ways, form: Form::Digits(kept) }
    }

    /// Parts by a list: the part of every position. Beyond the list's positions it is 0, and a part that there is none of
    /// counts as the last.
    pub fn listed(ways: usize, parts: impl Into<Arc<[usize]>>) -> Self {
        if ways <= 1 { Self::whole() } else { Self { ways, form: Form::Listed(parts.into()) } }
    }

    /// How many parts there are.
    pub fn ways(&self) -> usize {
        self.ways
    }
    /// The part that a position holds.
    pub fn part(&self, position: usize) -> usize {
        let part = match &self.form {
            Form::Digits(digits) => digits.iter().fold(0_usize, |part, (size, stride)| {
                part.saturating_mul(*size).saturating_add(position / stride % size)
            }),
            Form::Listed(parts) => parts.get(position).copied().unwrap_or(0),
        };
        part.min(self.ways.saturating_sub(1))
    }
    /// Size and stride of the digits, if these parts are counted by digits.
    pub fn as_digits(&self) -> Option<&[(usize, usize)]> {
        match &self.form {
            Form::Digits(digits) => Some(digits),
            Form::Listed(_) => None,
        }
    }

    /// Whether both are the same function on `positions` positions.
    pub fn same(&self, other: &Self, positions: usize) -> bool {
        if self.ways != other.ways {
            return false;
        }
        match (&self.form, &other.form) {
            (Form::Digits(a), Form::Digits(b)) => a == b,
            (Form::Listed(a), Form::Listed(b)) if Arc::ptr_eq(a, b) => true,
            _ => (0..positions).all(|position| self.part(position) == other.part(position)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sizes of the axes of a mesh of 24 devices, and which of them count, in which order.
    fn grid() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
        let sizes = (Just(vec![2, 2, 2, 3, 1]).prop_shuffle(), proptest::array::uniform5(any::<bool>()));
        sizes.prop_flat_map(|(factors, merged)| {
            let mut sizes: Vec<usize> = Vec::new();
            for (factor, merged) in factors.into_iter().zip(merged) {
                match sizes.last_mut() {
                    Some(last) if merged => *last *= factor,
                    _ => sizes.push(factor),
                }
            }
            let axes: Vec<usize> = (0..sizes.len()).collect();
            let n = axes.len();
            (Just(sizes), proptest::sample::subsequence(axes, 0..=n).prop_shuffle())
        })
    }
    fn digits((sizes, axes): &(Vec<usize>, Vec<usize>)) -> Vec<(usize, usize)> {
        axes.iter().map(|axis| (sizes[*axis], sizes[axis + 1..].iter().product())).collect()
    }

    proptest! {
        #[test]
        fn digits_are_equal_exactly_if_the_functions_are(a in grid(), b in grid()) {
            let positions: usize = 24;
            let (x, y) = (Parts::digits(digits(&a)), Parts::digits(digits(&b)));
            let listed = |parts: &Parts| -> Vec<usize> { (0..positions).map(|at| parts.part(at)).collect() };
            // By hand, digit by digit.
            let plain = |grid: &(Vec<usize>, Vec<usize>)| -> Vec<usize> {
                let part = |at: usize| digits(grid).iter().fold(0, |part, (size, stride)| part * size + at / stride % size);
                (0..positions).map(part).collect()
            };
            prop_assert_eq!(listed(&x), plain(&a));
            prop_assert_eq!(x.same(&y, positions), plain(&a) == plain(&b) && x.ways() == y.ways());
            let (p, q) = (Parts::listed(x.ways(), plain(&a)), Parts::listed(y.ways(), plain(&b)));
            prop_assert!(p.same(&x, positions) && x.same(&p, positions));
            prop_assert_eq!(p.same(&q, positions), x.same(&y, positions));
        }
    }

    #[test]
    fn what_is_no_grid_and_no_list_of_parts_is_no_panic() {
        let odd = [
            Parts::digits([(3, 0), (2, 0)]),
            Parts::digits([(usize::MAX, 1), (usize::MAX, usize::MAX)]),
            Parts::listed(3, [0, 7, usize::MAX]),
            Parts::listed(0, []),
        ];
        for parts in &odd {
            for position in [0, 1, 2, 3, usize::MAX] {
                assert!(parts.part(position) < parts.ways(), "{parts:?}");
            }
        }
        assert_eq!((odd[2].part(1), odd[2].part(3)), (2, 0));
    }
}
