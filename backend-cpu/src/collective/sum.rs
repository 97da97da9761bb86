//! The sum of parts by the tree of collectives, read once each where they lie.

use super::halves;
use crate::copy::Walk;
use crate::device::{self, is_large, vectorize};
use crate::element::{Cell, Item, is_narrow, with_lane};
use crate::map::Size;
use crate::memory::{ALIGN, Beside, Line, prefetch};
use crate::storage::{View, places, written};
use sharding_core::Result;
use sharding_core::backend::{BinaryOp, Expr, LocalArray, LocalMeta, Node, Primitive, Work};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// The most parts that are summed in one pass.
pub(super) const MOST: usize = 8;
/// Elements of the result that stay in the first cache between the two halves of a sum.
const CHUNK: usize = 2048;
/// Elements per task of the pool.
pub(super) const TASK: usize = 16 * CHUNK;

/// So many lines ahead of a sum past the caches its parts are asked for: beside such stores it was faster so, and halves were
/// slower than through the caches without.
pub(super) const AHEAD: usize = 16;

/// Parts are summed as they lie where they do so in stretches of so many elements.
const SHORTEST: usize = 64;

/// So many elements of a result, in whole stretches, are written in turns with those of others: what was fetched behind them is
/// still in the caches then.
const BAND: usize = 4096;

/// The sum of two to eight arrays by the tree of collectives, read once each; `None` for another expression, and for arrays
/// that do not lie in the same long stretches. `L` elements are a cache line.
pub(crate) fn sum<T: Item, const L: usize>(
    expr: &Expr,
    inputs: &[&LocalArray],
    out: &mut LocalArray,
    size: Size,
) -> Option<Result<()>> {
    let parts = Parts::<T>::of(expr, inputs, out)?;
    // SAFETY: it writes every element.
    Some(unsafe { parts.sum(out, size, add::<T, L>) })
}

/// The sums of several devices, in turns, if all their parts lie in stretches, as those of a reduce_scatter along an inner axis
/// do: what lies behind a stretch of one, and is fetched with it, is what the next one reads. Says whether it did.
pub(crate) fn together(primitive: &Primitive, work: &mut [Work<'_>]) -> Result<bool> {
    let (Primitive::Map(expr), [Work { outputs: [first], .. }, ..]) = (primitive, &*work) else {
        return Ok(false);
    };
    let elements: usize = work.iter().flat_map(|one| &*one.outputs).map(LocalArray::elements).sum();
    let dtype = first.dtype();
    if !is_large(elements.saturating_mul(expr.nodes().len())) {
        return Ok(false);
    }
    if is_narrow(dtype) {
        return halves::together(expr, dtype, work);
    }
    // SAFETY: it writes every element.
    with_lane!(dtype, T => unsafe { in_turns(expr, work, add::<T, { ALIGN / size_of::<T>() }>) })
}

/// Places of several results, each with its number.
type Band<'a, T> = SmallVec<[(usize, &'a mut [MaybeUninit<T>]); MOST]>;

/// As [`together`], by `add(parts, next, places, beside)`.
///
/// # Safety
/// `add` has put a value on every place.
pub(super) unsafe fn in_turns<T: Cell>(
    expr: &Expr,
    work: &mut [Work<'_>],
    add: impl Fn(&[&[T]], &[&[T]], &mut [MaybeUninit<T>], Option<&Beside>) + Sync,
) -> Result<bool> {
    let mut all: SmallVec<[(Parts<'_, T>, usize); MOST]> = SmallVec::new();
    let (mut count, mut bytes) = (None, 0_usize);
    for one in &*work {
        let [out] = &*one.outputs else { return Ok(false) };
        let Some(parts) = Parts::of(expr, one.inputs, out) else { return Ok(false) };
        let Some(len) = parts.walk.stretch().filter(|len| *len > 0) else { return Ok(false) };
        if *count.get_or_insert(out.elements() / len) != out.elements() / len {
            return Ok(false);
        }
        bytes = bytes.saturating_add(out.bytes());
        all.push((parts, len));
    }
    let longest = all.iter().map(|(_, len)| *len).max().unwrap_or(1);
    let rows = (BAND / longest).max(1);
    let mut bands: Vec<Band<'_, T>> = Vec::new();
    bands.resize_with(count.unwrap_or(0).div_ceil(rows), SmallVec::new);
    for (i, (one, (_, len))) in work.iter_mut().zip(&all).enumerate() {
        for out in &mut *one.outputs {
            // SAFETY: the caller's promise.
            let places = unsafe { places(out) }?;
            bands.iter_mut().zip(places.chunks_mut(rows * len)).for_each(|(band, here)| band.push((i, here)));
        }
    }
    device::try_chunks(&mut bands, 1, |number, bands| {
        let beside = Beside::new(bytes);
        for (i, here) in bands.iter_mut().flatten() {
            let (parts, len) = &all[*i];
            parts.write(number * rows * len, here, beside.as_ref(), &add);
        }
        Ok(())
    })?;
    drop(bands);
    for out in work.iter_mut().flat_map(|one| &mut *one.outputs) {
        // SAFETY: the bands are all elements, and the caller promises that each is written.
        unsafe { written(out) }?;
    }
    Ok(true)
}

/// Writes every element of `out`: the sum of those of all parts, past the caches where it is asked for.
fn add<T: Item, const L: usize>(
    parts: &[&[T]],
    next: &[&[T]],
    out: &mut [MaybeUninit<T>],
    beside: Option<&Beside>,
) {
    match beside {
        Some(beside) => add_up_beside::<T, L>(parts, next, out, beside),
        None => add_up(parts, out),
    }
}

/// The arrays of a sum.
pub(super) struct Parts<'a, T> {
    /// The memory of each, and the place of its first element.
    arrays: SmallVec<[(&'a [T], isize); MOST]>,
    /// The walk over all of them from there.
    walk: Walk,
}

impl<'a, T: Cell> Parts<'a, T> {
    /// The two to eight arrays of which an expression is the sum by the tree of collectives; `None` for another expression, and
    /// for arrays that do not lie in the same long stretches.
    pub(super) fn of(expr: &Expr, inputs: &[&'a LocalArray], out: &LocalArray) -> Option<Self> {
        let (nodes, n) = (expr.nodes(), inputs.len());
        if !(2..=MOST).contains(&n) || nodes.len() != 2 * n - 1 || !is_sum(nodes, nodes.len() - 1, 0, n) {
            return None;
        }
        let first = inputs.first()?.meta();
        let walk_of = |meta: &LocalMeta| Walk::new(&meta.shape, &meta.strides, 0);
        let walk = walk_of(first);
        if !walk.is_in_stretches(SHORTEST) {
            return None;
        }
        let array = |input: &&'a LocalArray| {
            let is_alike = (input.dtype(), input.shape()) == (out.dtype(), out.shape());
            let view = View::<T>::of(input).ok().filter(|_| is_alike)?;
            // Strides of axes of extent 1 do not matter.
            let meta = view.meta();
            let lies_so = meta.strides == first.strides || walk_of(meta) == walk;
            lies_so.then(|| (view.data(), meta.offset as isize))
        };
        Some(Self { arrays: inputs.iter().map(array).collect::<Option<_>>()?, walk })
    }

    /// Writes the sum by `add(parts, next, places, beside)`: of as many elements of each part as there are places. What is read
    /// `next` is only asked for.
    ///
    /// # Safety
    /// `add` has put a value on every place.
    pub(super) unsafe fn sum(
        &self,
        out: &mut LocalArray,
        size: Size,
        add: impl Fn(&[&[T]], &[&[T]], &mut [MaybeUninit<T>], Option<&Beside>) + Sync,
    ) -> Result<()> {
        let write = |start: usize, out: &mut [MaybeUninit<T>], beside: Option<&Beside>| {
            self.write(start, out, beside, &add);
            Ok(())
        };
        // SAFETY: the tasks are all elements, and the caller promises that each is written.
        unsafe { size.tasks(out, TASK, write) }
    }

    /// Calls `add` for the stretches of elements `start..start + out.len()`.
    fn write(
        &self,
        start: usize,
        mut out: &mut [MaybeUninit<T>],
        beside: Option<&Beside>,
        add: impl Fn(&[&[T]], &[&[T]], &mut [MaybeUninit<T>], Option<&Beside>),
    ) {
        let from = |at: isize| -> SmallVec<[&[T]; MOST]> {
            let part = |(data, first): &(&'a [T], isize)| data.get((first + at) as usize..).unwrap_or(&[]);
            self.arrays.iter().map(part).collect()
        };
        let count = out.len();
        let mut stretch = |(at, len): (isize, usize), next: isize| {
            let (here, rest) = std::mem::take(&mut out).split_at_mut(len);
            out = rest;
            add(&from(at), &from(next), here, beside);
        };
        let mut before = None;
        self.walk.runs(start, count, |at, len, _| {
            if let Some(before) = before.replace((at, len)) {
                stretch(before, at);
            }
        });
        if let Some((at, len)) = before {
            stretch((at, len), at + len as isize);
        }
    }
}

/// Whether step `at` is the sum of inputs `first..first + n`, in which the left half has `ceil(n / 2)` of them.
fn is_sum(nodes: &[Node], at: usize, first: usize, n: usize) -> bool {
    match nodes.get(at) {
        Some(Node::Input(i)) => n == 1 && usize::from(*i) == first,
        Some(Node::Binary(BinaryOp::Add, left, right)) if n > 1 => {
            let half = n.div_ceil(2);
            is_sum(nodes, (*left).into(), first, half)
                && is_sum(nodes, (*right).into(), first + half, n - half)
        }
        _ => false,
    }
}

/// Runs `$put` on every place of a slice beside the elements of others, vectorised.
macro_rules! combine {
    (|$slot:ident of $out:ident, $($x:ident),+| $put:expr) => {{
        let places = &mut *$out;
        $(let $x = &$x[..places.len()];)+
        vectorize(
            #[inline(always)]
            move || {
                for (i, $slot) in places.iter_mut().enumerate() {
                    $(let $x = $x[i];)+
                    $put;
                }
            },
        )
    }};
}

/// Writes every element of `out`: the sum of those of all parts, which are at least as long, in the order of the tree.
fn add_up<T: Item>(parts: &[&[T]], out: &mut [MaybeUninit<T>]) {
    for (number, out) in out.chunks_mut(CHUNK).enumerate() {
        let parts: SmallVec<[&[T]; MOST]> = parts.iter().map(|part| &part[number * CHUNK..]).collect();
        let (left, right) = parts.split_at(parts.len().div_ceil(2));
        match *left {
            [a] => combine!(|slot of out, a| slot.write(a)),
            [a, b] => combine!(|slot of out, a, b| slot.write(T::plus(a, b))),
            [a, b, c] => combine!(|slot of out, a, b, c| slot.write(T::plus(T::plus(a, b), c))),
            [a, b, c, d] => {
                combine!(|slot of out, a, b, c, d| slot.write(T::plus(T::plus(a, b), T::plus(c, d))))
            }
            // `Parts` has looked at the number.
            _ => unreachable!("{} parts", parts.len()),
        }
        // SAFETY: each of the loops above writes every element.
        let out = unsafe { &mut *(std::ptr::from_mut(out) as *mut [T]) };
        match *right {
            [] => {}
            [a] => combine!(|sum of out, a| *sum = T::plus(*sum, a)),
            [a, b] => combine!(|sum of out, a, b| *sum = T::plus(*sum, T::plus(a, b))),
            [a, b, c] => {
                combine!(|sum of out, a, b, c| *sum = T::plus(*sum, T::plus(T::plus(a, b), c)))
            }
            [a, b, c, d] => combine!(
                |sum of out, a, b, c, d| *sum = T::plus(*sum, T::plus(T::plus(a, b), T::plus(c, d)))
            ),
            _ => unreachable!("{} parts", parts.len()),
        }
    }
}

/// The whole lines of a part.
#[derive(Clone, Copy)]
struct Whole<'a, T, const L: usize> {
    lines: &'a [[T; L]],
    /// What is read behind them.
    next: &'a [T],
}

impl<'a, T, const L: usize> Whole<'a, T, L> {
    /// A line; one further on is asked for.
    #[inline(always)]
    fn at(&self, i: usize) -> &'a [T; L] {
        let ahead = i + AHEAD;
        prefetch(match ahead.checked_sub(self.lines.len()) {
            None => self.lines.as_ptr().wrapping_add(ahead).cast(),
            Some(behind) => self.next.as_ptr().wrapping_add(behind * L),
        });
        &self.lines[i]
    }
}

/// As [`add_up`], past the caches: every line of the result is added in registers and written from there.
fn add_up_beside<T: Item, const L: usize>(
    parts: &[&[T]],
    next: &[&[T]],
    out: &mut [MaybeUninit<T>],
    beside: &Beside,
) {
    let (head, lines, tail) = Line::<T, L>::among(out);
    add_up(parts, head);
    let (mut whole, mut last) = (SmallVec::<[Whole<'_, T, L>; MOST]>::new(), SmallVec::<[&[T]; MOST]>::new());
    for (part, next) in parts.iter().zip(next) {
        let (lines, rest) = part[head.len()..].split_at(lines.len() * L);
        whole.push(Whole { lines: lines.as_chunks().0, next });
        last.push(rest);
    }
    add_up(&last, tail);
    /// Writes the lines whose element `$j` is `$put`, of the lines of every part.
    macro_rules! put {
        (|$j:ident of $($x:ident),+| $put:expr) => {
            beside.lines(lines, #[inline(always)] move |i| {
                $(let $x = $x.at(i);)+
                std::array::from_fn(#[inline(always)] |$j| $put)
            })
        };
    }
    let plus = T::plus;
    match *whole {
        [a, b] => put!(|j of a, b| plus(a[j], b[j])),
        [a, b, c] => put!(|j of a, b, c| plus(plus(a[j], b[j]), c[j])),
        [a, b, c, d] => put!(|j of a, b, c, d| plus(plus(a[j], b[j]), plus(c[j], d[j]))),
        [a, b, c, d, e] => {
            put!(|j of a, b, c, d, e| plus(plus(plus(a[j], b[j]), c[j]), plus(d[j], e[j])))
        }
        [a, b, c, d, e, f] => put!(|j of a, b, c, d, e, f| plus(
            plus(plus(a[j], b[j]), c[j]),
            plus(plus(d[j], e[j]), f[j])
        )),
        [a, b, c, d, e, f, g] => put!(|j of a, b, c, d, e, f, g| plus(
            plus(plus(a[j], b[j]), plus(c[j], d[j])),
            plus(plus(e[j], f[j]), g[j])
        )),
        [a, b, c, d, e, f, g, h] => put!(|j of a, b, c, d, e, f, g, h| plus(
            plus(plus(a[j], b[j]), plus(c[j], d[j])),
            plus(plus(e[j], f[j]), plus(g[j], h[j]))
        )),
        // `Parts` has looked at the number.
        _ => unreachable!("{} parts", whole.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::tests::{array, values};
    use crate::storage;
    use proptest::prelude::*;
    use sharding_core::{BackendKind, DType, Device, DeviceMapping, DeviceMesh, Place, Tensor, TensorLayout};

    /// Sums by halves, as the tree says.
    fn tree(parts: &[f32]) -> f32 {
        match parts {
            [one] => *one,
            _ => {
                let (left, right) = parts.split_at(parts.len().div_ceil(2));
                tree(left) + tree(right)
            }
        }
    }

    fn expr(first: u8, n: u8) -> Expr {
        if n == 1 {
            return Expr::input(first);
        }
        let half = n.div_ceil(2);
        Expr::binary(BinaryOp::Add, expr(first, half), expr(first + half, n - half))
    }

    #[test]
    fn parts_are_added_in_the_order_of_the_tree() {
        let len = CHUNK + 13;
        // Magnitudes so different that another order gives other sums.
        let value =
            |part: usize, i: usize| ((part * 7 + i * 13) % 11) as f32 * 10_f32.powi(part as i32 * 3 % 8);
        for n in 1..=MOST {
            let parts: Vec<Vec<f32>> =
                (0..n).map(|part| (0..len + 5).map(|i| value(part, i)).collect()).collect();
            let slices: Vec<&[f32]> = parts.iter().map(|part| &part[5..]).collect();
            let check = |out: &[MaybeUninit<f32>]| {
                for (i, found) in out.iter().enumerate() {
                    // SAFETY: the vector was made of values.
                    let found = unsafe { found.assume_init() };
                    let column: Vec<f32> = (0..n).map(|part| value(part, i + 5)).collect();
                    assert_eq!(found.to_bits(), tree(&column).to_bits());
                }
            };
            let mut out = vec![MaybeUninit::new(f32::NAN); len];
            add_up(&slices, &mut out);
            check(&out);
            if let Some(beside) = Beside::new(usize::MAX)
                && n > 1
            {
                // Without a line, with lines that begin anywhere, and many of them.
                for (first, len) in
                    [(0, 0), (1, 3), (0, 16), (3, 64), (15, 200), (16, 1000), (0, len), (5, len - 5)]
                {
                    let mut out = vec![MaybeUninit::new(f32::NAN); first + len];
                    add_up_beside::<_, 16>(&slices, &slices, &mut out[first..], &beside);
                    check(&out[first..]);
                    let untouched = |found: &MaybeUninit<f32>| {
                        // SAFETY: as above.
                        unsafe { found.assume_init() }.is_nan()
                    };
                    assert!(out[..first].iter().all(untouched));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, ..ProptestConfig::default() })]
        /// Boxes cut out of larger arrays, and axes in any order: those that lie in long stretches are added there, others are
        /// left alone, and an array that lies otherwise than the rest is none of them.
        #[test]
        fn views_are_added_as_they_lie(
            n in 2..=MOST,
            cut in prop::array::uniform3((0_usize..3, 1_usize..5, 0_usize..3)),
            last in (0_usize..20, 1_usize..200, 0_usize..20),
            swaps: bool,
            other: bool,
            is_large: bool,
        ) {
            let cuts = [cut[0], cut[1], cut[2], last];
            let whole: Vec<usize> = cuts.iter().map(|(before, len, after)| before + len + after).collect();
            let view = |part: usize| {
                let mut view = array(&whole, part * 1000);
                for (axis, (before, len, _)) in cuts.iter().enumerate() {
                    view = view.slice(axis, *before, *len);
                }
                if swaps { view.permute(&[1, 0, 2, 3]) } else { view }
            };
            let mut parts: Vec<LocalArray> = (0..n).map(view).collect();
            if other {
                let dense = array(parts[0].shape(), 7);
                parts[n - 1] = dense;
            }
            let mut out = storage::alloc(Device::cpu(), DType::I64, parts[0].shape()).unwrap();
            let inputs: Vec<&LocalArray> = parts.iter().collect();
            let size = if is_large { Size::Large(usize::MAX) } else { Size::Small };
            let tree = expr(0, n as u8);
            let done = sum::<i64, 8>(&tree, &inputs, &mut out, size).map(|done| done.unwrap());
            let alike = parts.iter().all(|part| part.meta().strides == parts[0].meta().strides);
            if alike && (last.1 >= SHORTEST || parts[0].is_contiguous()) {
                prop_assert!(done.is_some());
            }
            if done.is_some() {
                let parts: Vec<Vec<i64>> = parts.iter().map(values).collect();
                let sums: Vec<i64> = (0..out.elements()).map(|i| parts.iter().map(|part| part[i]).sum()).collect();
                prop_assert_eq!(values(&out), sums);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 100 }, ..ProptestConfig::default() })]
        /// Parts cut along an inner axis for several devices, in pieces of any sizes.
        #[test]
        fn sums_in_turns_are_those_of_each(
            n in 2..=MOST,
            (rows, inner) in (1_usize..40, 1_usize..4),
            sizes in prop::collection::vec(60_usize..130, 2..5),
        ) {
            let whole = [rows, sizes.iter().sum(), inner];
            let parts: Vec<LocalArray> = (0..n).map(|part| array(&whole, part * 1000)).collect();
            let mut start = 0;
            let cut = |size: &usize| {
                start += size;
                parts.iter().map(|part| part.slice(1, start - size, *size)).collect()
            };
            let cuts: Vec<Vec<LocalArray>> = sizes.iter().map(cut).collect();
            let inputs: Vec<Vec<&LocalArray>> = cuts.iter().map(|cut| cut.iter().collect()).collect();
            let out = |cut: &Vec<LocalArray>| storage::alloc(Device::cpu(), DType::I64, cut[0].shape()).unwrap();
            let mut outputs: Vec<LocalArray> = cuts.iter().map(out).collect();
            let work = |(inputs, out)| {
                Work { op: "sum", device: Device::cpu(), inputs, outputs: std::slice::from_mut(out) }
            };
            let mut work: Vec<Work<'_>> =
                inputs.iter().map(Vec::as_slice).zip(&mut outputs).map(work).collect();
            // SAFETY: `add` writes every element.
            let done = unsafe { in_turns::<i64>(&expr(0, n as u8), &mut work, add::<i64, 8>) }.unwrap();
            drop(work);
            let is_long = |cut: &Vec<LocalArray>| cut[0].shape()[1] * inner >= SHORTEST;
            prop_assert_eq!(done, rows > 1 && cuts.iter().all(is_long));
            if done {
                for (cut, out) in cuts.iter().zip(&outputs) {
                    let parts: Vec<Vec<i64>> = cut.iter().map(values).collect();
                    let sums: Vec<i64> =
                        (0..out.elements()).map(|i| parts.iter().map(|part| part[i]).sum()).collect();
                    prop_assert_eq!(values(out), sums);
                }
            }
        }
    }

    /// Large enough for turns: the pieces are those of the sum on all devices.
    #[test]
    fn a_large_reduce_scatter_along_an_inner_axis_is_a_piece_of_the_sum() {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::I8] {
            let mesh = DeviceMesh::simulated(BackendKind::CPU, [3], ["x"]).unwrap();
            let lay = |place| {
                let mapping = DeviceMapping::new(&mesh, [place]).unwrap();
                TensorLayout::new(dtype, [700, 1001], mapping).unwrap()
            };
            let layout = lay(Place::PARTIAL);
            let size = dtype.size();
            let shard = |part: usize| {
                let mut shard = storage::alloc(Device::cpu(), dtype, layout.shape()).unwrap();
                let bytes: Vec<u8> = (0..shard.bytes() / size)
                    // Small numbers of every dtype: the upper byte says the exponent.
                    .flat_map(|i| {
                        (0..size).map(move |b| if b + 1 == size { 0x3c } else { (i * 7 + part) as u8 })
                    })
                    .collect();
                storage::write(&bytes, &mut shard).unwrap();
                shard
            };
            let positions =
                sharding_core::backend::backend_of(BackendKind::CPU).unwrap().positions(&mesh).unwrap();
            let parts = Tensor::from_shards(layout.clone(), positions, (0..3).map(shard).collect()).unwrap();
            let moved = |place| parts.transfer_to(lay(place).mapping()).unwrap().to_bytes().unwrap();
            assert!(moved(Place::Sharded(1)) == moved(Place::Replicated), "{dtype}");
        }
    }

    #[test]
    fn only_the_tree_is_taken_for_it() {
        for n in 2..=8 {
            let sum = expr(0, n);
            assert!(is_sum(sum.nodes(), sum.nodes().len() - 1, 0, n.into()));
        }
        let chain = (1..4).fold(Expr::input(0), |sum, i| Expr::binary(BinaryOp::Add, sum, Expr::input(i)));
        assert!(!is_sum(chain.nodes(), chain.nodes().len() - 1, 0, 4));
        let product = Expr::binary(BinaryOp::Mul, Expr::input(0), Expr::input(1));
        assert!(!is_sum(product.nodes(), 2, 0, 2));
    }
}
