//! The sum of parts of f16 and bf16: widened, added by the tree of collectives and rounded once, all in registers.
//!
//! Only by vectors that convert halves themselves. Elsewhere the steps of [`map`](crate::map) give the same bits.

use super::sum::{Parts, in_turns};
use crate::map::Size;
use crate::memory::Beside;
use sharding_core::backend::{Expr, LocalArray, Work};
use sharding_core::{DType, Result};
use std::mem::MaybeUninit;
use vectors::Vectors;

/// The sum of two to eight arrays of f16 or bf16; `None` for another expression or dtype, for arrays that do not lie in the same
/// long stretches, and on a processor without such vectors.
pub(crate) fn sum(
    expr: &Expr,
    inputs: &[&LocalArray],
    out: &mut LocalArray,
    size: Size,
) -> Option<Result<()>> {
    let adder = Adder::of(out.dtype())?;
    let parts = Parts::<u16>::of(expr, inputs, out)?;
    // SAFETY: it writes every element.
    Some(unsafe { parts.sum(out, size, |parts, next, out, beside| adder.add(parts, next, out, beside)) })
}

/// As [`sum::together`](super::sum::together).
pub(super) fn together(expr: &Expr, dtype: DType, work: &mut [Work<'_>]) -> Result<bool> {
    let Some(adder) = Adder::of(dtype) else { return Ok(false) };
    // SAFETY: it writes every element.
    unsafe { in_turns(expr, work, |parts, next, out, beside| adder.add(parts, next, out, beside)) }
}

/// Adds elements of a dtype.
#[derive(Clone, Copy)]
struct Adder {
    vectors: Vectors,
    is_f16: bool,
}

impl Adder {
    fn of(dtype: DType) -> Option<Self> {
        let is_f16 = match dtype {
            DType::F16 => true,
            DType::BF16 => false,
            _ => return None,
        };
        Some(Self { vectors: Vectors::find()?, is_f16 })
    }

    /// Writes every element of `out`.
    fn add(self, parts: &[&[u16]], next: &[&[u16]], out: &mut [MaybeUninit<u16>], beside: Option<&Beside>) {
        if self.is_f16 {
            self.vectors.add_up::<true>(parts, next, out, beside);
        } else {
            self.vectors.add_up::<false>(parts, next, out, beside);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    use crate::collective::sum::{AHEAD, MOST};
    use crate::memory::{Beside, Line, prefetch};
    use bytemuck::cast;
    use std::arch::x86_64::{
        __m128i, __m256, __m256i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_packus_epi32,
        _mm_setzero_si128, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps, _mm256_and_si256,
        _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmp_ps,
        _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_extracti128_si256, _mm256_or_ps,
        _mm256_set_m128i, _mm256_set1_epi32, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_srli_epi32,
        _mm256_stream_si256,
    };
    use std::array::from_fn;
    use std::mem::MaybeUninit;

    /// Halves of a vector of floats.
    const LANES: usize = 8;
    /// Halves of a cache line.
    const LINE: usize = 32;

    /// This processor has AVX2 and F16C.
    #[derive(Clone, Copy)]
    pub(super) struct Vectors(());

    impl Vectors {
        pub(super) fn find() -> Option<Self> {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Self(()))
        }

        /// Writes every element of `out`: the sum of those of two to eight parts that are at least as long. What is read `next` is
        /// asked for.
        pub(super) fn add_up<const F16: bool>(
            self,
            parts: &[&[u16]],
            next: &[&[u16]],
            out: &mut [MaybeUninit<u16>],
            beside: Option<&Beside>,
        ) {
            /// Runs the sum of as many parts as there are.
            macro_rules! of {
                ($($n:literal)*) => {
                    match parts.len() {
                        $($n => {
                            let (parts, next) = (from_fn::<_, $n, _>(|i| parts[i]), from_fn(|i| next[i]));
                            // SAFETY: `find` has seen the instructions.
                            unsafe { add_up::<F16, $n>(parts, next, out, beside) }
                        })*
                        // `Parts` has looked at their number.
                        n => unreachable!("{n} parts"),
                    }
                };
            }
            const { assert!(MOST == 8) };
            of!(2 3 4 5 6 7 8);
        }
    }

    // Loops, not `map`: a closure of these functions is not inlined into the standard library's, which do without the vectors.

    #[target_feature(enable = "avx2,f16c")]
    fn add_up<const F16: bool, const N: usize>(
        mut parts: [&[u16]; N],
        next: [&[u16]; N],
        out: &mut [MaybeUninit<u16>],
        beside: Option<&Beside>,
    ) {
        let (head, lines, tail) = Line::<u16, LINE>::among(out);
        few::<F16, N>(parts, head);
        let mut whole: [&[[[u16; LANES]; LINE / LANES]]; N] = [&[]; N];
        for (whole, part) in whole.iter_mut().zip(&mut parts) {
            let (middle, rest) = part[head.len()..].split_at(lines.len() * LINE);
            *whole = middle.as_chunks().0.as_chunks().0;
            *part = rest;
        }
        few::<F16, N>(parts, tail);
        for (i, line) in lines.iter_mut().enumerate() {
            for (part, next) in whole.iter().zip(&next) {
                prefetch(match (i + AHEAD).checked_sub(part.len()) {
                    None => part.as_ptr().wrapping_add(i + AHEAD).cast(),
                    Some(behind) => next.as_ptr().wrapping_add(behind * LINE),
                });
            }
            let mut sums = [_mm_setzero_si128(); LINE / LANES];
            for (j, sum) in sums.iter_mut().enumerate() {
                let mut vectors = [_mm256_setzero_ps(); N];
                for (vector, part) in vectors.iter_mut().zip(&whole) {
                    *vector = widen::<F16>(cast(part[i][j]));
                }
                *sum = narrow::<F16>(tree(vectors));
            }
            let place = std::ptr::from_mut(line).cast::<__m256i>();
            for (j, [low, high]) in sums.as_chunks().0.iter().enumerate() {
                let both = _mm256_set_m128i(*high, *low);
                // SAFETY: a line has places for so many vectors, is aligned for them, and takes any bits.
                unsafe {
                    match beside {
                        Some(_) => _mm256_stream_si256(place.add(j), both),
                        None => place.add(j).write(both),
                    }
                }
            }
        }
    }

    /// The same for less than a line, of parts that are at least as long: vectors that are not full are filled up with zeros.
    #[target_feature(enable = "avx2,f16c")]
    fn few<const F16: bool, const N: usize>(parts: [&[u16]; N], out: &mut [MaybeUninit<u16>]) {
        for (i, out) in out.chunks_mut(LANES).enumerate() {
            let mut vectors = [_mm256_setzero_ps(); N];
            for (vector, part) in vectors.iter_mut().zip(&parts) {
                let mut halves = [0; LANES];
                halves[..out.len()].copy_from_slice(&part[i * LANES..][..out.len()]);
                *vector = widen::<F16>(cast(halves));
            }
            let sums: [u16; LANES] = cast(narrow::<F16>(tree(vectors)));
            out.write_copy_of_slice(&sums[..out.len()]);
        }
    }

    /// The sum in which the left half has `ceil(N / 2)` of the vectors, and so on.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn tree<const N: usize>(vectors: [__m256; N]) -> __m256 {
        let plus = |a, b| _mm256_add_ps(a, b);
        let half = |vectors: &[__m256]| match *vectors {
            [a] => a,
            [a, b] => plus(a, b),
            [a, b, c] => plus(plus(a, b), c),
            [a, b, c, d] => plus(plus(a, b), plus(c, d)),
            _ => unreachable!("half of {N} parts"),
        };
        let (left, right) = vectors.split_at(N.div_ceil(2));
        plus(half(left), half(right))
    }

    /// The same numbers as f32.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn widen<const F16: bool>(halves: __m128i) -> __m256 {
        if F16 {
            _mm256_cvtph_ps(halves)
        } else {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
        }
    }

    /// The numbers rounded to the nearest, ties to even; NaN as [`Narrow::store`](crate::element::Narrow::store) makes it.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn narrow<const F16: bool>(floats: __m256) -> __m128i {
        let bits = |word: u32| _mm256_set1_epi32(word.cast_signed());
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(floats, floats);
        if F16 {
            // Without its payload, which the conversion would keep.
            let sign = _mm256_and_ps(floats, _mm256_castsi256_ps(bits(0x8000_0000)));
            let nan = _mm256_or_ps(sign, _mm256_castsi256_ps(bits(0x7fc0_0000)));
            return _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_blendv_ps(floats, nan, is_nan));
        }
        let word = _mm256_castps_si256(floats);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(word), bits(1));
        let rounded = _mm256_add_epi32(word, _mm256_add_epi32(odd, bits(0x7fff)));
        let nan = _mm256_or_ps(floats, _mm256_castsi256_ps(bits(0x0040_0000)));
        let either = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), nan, is_nan);
        let high = _mm256_srli_epi32::<16>(_mm256_castps_si256(either));
        _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256::<1>(high))
    }
}

/// Elsewhere there are no such vectors.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod vectors {
    use crate::memory::Beside;
    use std::mem::MaybeUninit;

    #[derive(Clone, Copy)]
    pub(super) enum Vectors {}

    impl Vectors {
        pub(super) fn find() -> Option<Self> {
            None
        }

        pub(super) fn add_up<const F16: bool>(
            self,
            _: &[&[u16]],
            _: &[&[u16]],
            _: &mut [MaybeUninit<u16>],
            _: Option<&Beside>,
        ) {
            match self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::sum::{MOST, TASK};
    use crate::element::Narrow;
    use crate::map;
    use crate::storage;
    use half::{bf16, f16};
    use proptest::prelude::*;
    use sharding_core::backend::{BinaryOp, backend_of};
    use sharding_core::placement::Ragged;
    use sharding_core::{
        BackendKind, Device, DeviceMapping, DeviceMesh, Place, Scalar, Shape, Tensor, TensorLayout,
    };

    const DTYPES: [DType; 2] = [DType::F16, DType::BF16];

    fn array(dtype: DType, shape: &Shape, halves: &[u16]) -> LocalArray {
        let mut array = storage::alloc(Device::cpu(), dtype, shape).unwrap();
        storage::write(bytemuck::cast_slice(halves), &mut array).unwrap();
        array
    }

    fn halves(array: &LocalArray) -> Vec<u16> {
        let mut halves = vec![0; array.elements()];
        storage::read(array, bytemuck::cast_slice_mut(&mut halves)).unwrap();
        halves
    }

    /// The tree, over inputs from `first` on.
    fn tree(first: u8, n: u8) -> Expr {
        if n == 1 {
            return Expr::input(first);
        }
        let half = n.div_ceil(2);
        Expr::binary(BinaryOp::Add, tree(first, half), tree(first + half, n - half))
    }

    /// The same sum in steps: what -0 is added to stays what it is, and [`sum`] does not take it.
    fn in_steps(dtype: DType, n: u8) -> Expr {
        Expr::binary(BinaryOp::Add, tree(0, n), Expr::constant(Scalar::Float(-0.0), dtype))
    }

    fn run(expr: &Expr, parts: &[LocalArray]) -> Vec<u16> {
        let (dtype, shape) = (parts[0].dtype(), parts[0].shape());
        let mut out = storage::alloc(Device::cpu(), dtype, shape).unwrap();
        map::run(expr, &parts.iter().collect::<Vec<_>>(), &mut out, 1).unwrap();
        halves(&out)
    }

    fn is_nan(dtype: DType, half: u16) -> bool {
        let infinity = if dtype == DType::F16 { f16::INFINITY.to_bits() } else { bf16::INFINITY.to_bits() };
        half & 0x7fff > infinity
    }

    /// Numbers of any kind: every element of at most one part is NaN, as which of two is kept is nobody's promise.
    fn any_parts(dtype: DType, n: usize, len: usize, seed: u64) -> Vec<Vec<u16>> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut parts = vec![vec![0; len]; n];
        for i in 0..len {
            let may_be_nan = next() as usize % n;
            for (p, part) in parts.iter_mut().enumerate() {
                let word = next();
                // Half of them near each other, so that sums are rounded; the others of any size.
                let half = if word & 0x10000 == 0 { 0x3c00 ^ (word as u16 & 0x83ff) } else { word as u16 };
                part[i] = if is_nan(dtype, half) && p != may_be_nan { half & 0x83ff } else { half };
            }
        }
        parts
    }

    #[test]
    fn sums_are_those_in_steps() {
        for dtype in DTYPES {
            for n in 2..=8_u8 {
                for len in [1, 3, 8, 31, 32, 33, 100, 1024, 5000, TASK * 5 + 77] {
                    let shape = Shape::from([len]);
                    let parts: Vec<LocalArray> =
                        any_parts(dtype, n.into(), len, len as u64 * 77 + u64::from(n))
                            .iter()
                            .map(|part| array(dtype, &shape, part))
                            .collect();
                    assert_eq!(
                        run(&tree(0, n), &parts),
                        run(&in_steps(dtype, n), &parts),
                        "{n} of {dtype}[{len}]"
                    );
                }
            }
        }
    }

    /// Parts and results that begin and end anywhere, and other orders in memory.
    #[test]
    fn views_are_added_as_they_lie() {
        for dtype in DTYPES {
            let whole = Shape::from([60, 171]);
            let parts: Vec<LocalArray> =
                any_parts(dtype, 3, 60 * 171, 5).iter().map(|part| array(dtype, &whole, part)).collect();
            for (start, len) in [(0, 60), (1, 1), (3, 40), (59, 1), (20, 0)] {
                let rows: Vec<_> = parts.iter().map(|part| part.slice(0, start, len)).collect();
                assert_eq!(run(&tree(0, 3), &rows), run(&in_steps(dtype, 3), &rows));
            }
            for (start, len) in [(0, 60), (1, 1), (3, 100), (59, 64), (20, 0), (100, 71), (0, 171)] {
                let columns: Vec<_> = parts.iter().map(|part| part.slice(1, start, len)).collect();
                let sums = run(&in_steps(dtype, 3), &columns);
                assert_eq!(run(&tree(0, 3), &columns), sums);
                // Past the caches, where they lie in long stretches and the vectors are there.
                let mut out = storage::alloc(Device::cpu(), dtype, columns[0].shape()).unwrap();
                let inputs: Vec<_> = columns.iter().collect();
                if let Some(done) = sum(&tree(0, 3), &inputs, &mut out, Size::Large(usize::MAX)) {
                    done.unwrap();
                    assert_eq!(halves(&out), sums);
                }
            }
        }
    }

    /// Past the caches, in a result of which every place is written.
    #[test]
    fn large_sums_are_those_in_steps() {
        let len = (17 << 20) + 3;
        let shape = Shape::from([len]);
        for (dtype, n) in [(DType::F16, 2), (DType::BF16, 3)] {
            let block = any_parts(dtype, n.into(), 1 << 12, 9);
            let parts: Vec<LocalArray> = block
                .iter()
                .map(|part| array(dtype, &shape, &part.iter().copied().cycle().take(len).collect::<Vec<_>>()))
                .collect();
            assert!(run(&tree(0, n), &parts) == run(&in_steps(dtype, n), &parts), "{n} of {dtype}[{len}]");
        }
    }

    /// The sum by the conversions of one number, rounded once for eight parts at most.
    fn by_one(dtype: DType, column: &[u16]) -> u16 {
        fn tree<S: Narrow<Lane = f32>>(column: &[S]) -> f32 {
            match column {
                [one] => one.load(),
                _ => {
                    let (left, right) = column.split_at(column.len().div_ceil(2));
                    tree(left) + tree(right)
                }
            }
        }
        if column.len() > MOST {
            let (left, right) = column.split_at(column.len().div_ceil(2));
            return by_one(dtype, &[by_one(dtype, left), by_one(dtype, right)]);
        }
        match dtype {
            DType::F16 => f16::store(tree::<f16>(bytemuck::cast_slice(column))).to_bits(),
            _ => bf16::store(tree::<bf16>(bytemuck::cast_slice(column))).to_bits(),
        }
    }

    fn check_collective(dtype: DType, place: Place, shape: &[usize], n: usize, seed: u64) {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [n], ["x"]).unwrap();
        let layout = |place| {
            TensorLayout::new(dtype, shape.to_vec(), DeviceMapping::new(&mesh, [place]).unwrap()).unwrap()
        };
        let (source, target) = (layout(Place::PARTIAL), layout(place));
        let parts = any_parts(dtype, n, source.shape().elements(), seed);
        let shards = parts.iter().map(|part| array(dtype, source.shape(), part)).collect();
        let backend = backend_of(BackendKind::CPU).unwrap();
        let partial = Tensor::from_shards(source, backend.positions(&mesh).unwrap(), shards).unwrap();
        let column = |i: usize| parts.iter().map(|part| part[i]).collect::<Vec<_>>();
        let sums: Vec<u16> = (0..parts[0].len()).map(|i| by_one(dtype, &column(i))).collect();
        let moved = partial.transfer_to(target.mapping()).unwrap();
        assert_eq!(moved.to_bytes().unwrap(), bytemuck::cast_slice::<u16, u8>(&sums), "{target}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, ..ProptestConfig::default() })]
        #[test]
        fn collectives_sum_as_one_number_does(
            (n, sizes) in (2_usize..=9).prop_flat_map(|n| (Just(n), prop::collection::vec(0_usize..12, n))),
            other in 0_usize..70,
            axis in 0_usize..2,
            is_f16: bool,
            seed: u64,
        ) {
            let dtype = DTYPES[usize::from(!is_f16)];
            let mut shape = [other, other];
            shape[axis] = sizes.iter().sum();
            for place in [Place::Replicated, Place::Sharded(axis as u8), Ragged::place(axis, sizes.clone())] {
                check_collective(dtype, place, &shape, n, seed);
            }
        }
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    mod conversions {
        use super::super::vectors::{Vectors, narrow, widen};
        use super::*;
        use bytemuck::cast;

        fn check<S: Narrow<Lane = f32>, const F16: bool>() {
            if Vectors::find().is_none() {
                println!("SKIPPED conversions of halves: this processor has no AVX2 or no F16C");
                return;
            }
            let wide = |halves: [u16; 8]| -> [u32; 8] {
                // SAFETY: the vectors were found.
                cast(unsafe { widen::<F16>(cast(halves)) })
            };
            let narrowed = |floats: [u32; 8]| -> [u16; 8] {
                // SAFETY: as above.
                cast(unsafe { narrow::<F16>(cast(floats)) })
            };
            for first in (0..=u16::MAX).step_by(8) {
                let all: [u16; 8] = std::array::from_fn(|i| first + i as u16);
                let one = all.map(|half| cast::<u16, S>(half).load().to_bits());
                assert_eq!(wide(all), one, "{all:x?}");
            }
            // Every upper half of a float, beside what is below, at and above the middle of two halves.
            let eighths =
                (0..8).flat_map(|i| [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff].map(|low| i * 0x2000 + low));
            for low in eighths.chain([0x7fff, 0x8001]) {
                for high in (0..=u32::from(u16::MAX)).step_by(8) {
                    let all: [u32; 8] = std::array::from_fn(|i| ((high + i as u32) << 16) | low);
                    let one = all.map(|word| cast::<S, u16>(S::store(f32::from_bits(word))));
                    assert_eq!(narrowed(all), one, "{all:x?}");
                }
            }
        }

        #[test]
        fn vectors_convert_as_one_number_does() {
            check::<f16, true>();
            check::<bf16, false>();
        }
    }
}
