//! Random numbers by counter.
//!
//! A task fills a chunk of the result at a time, in three loops that vectorise and stay in the cache: the blocks that the
//! chunk needs go through Philox, several beside each other; their words are laid side by side in the order of the
//! result; words become elements.

use crate::device::{self, is_large, vectorize};
use crate::element::{Cell, Narrow, Truth, log, polynomial};
use crate::storage::{internal, overwrite, unsupported};
use half::{bf16, f16};
use sharding_core::backend::{Distribution, LocalArray, Random, RandomKey, Support, next_below};
use sharding_core::{DType, Result};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Words of a chunk.
const WORDS: usize = 1024;
/// Blocks that go through Philox beside each other: what the widest vectors hold of words.
const LANES: usize = 16;
/// Elements per task of the pool.
const TASK: usize = 1 << 15;
/// What an element costs compared with an addition.
const WEIGHT: usize = 8;

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(random: &Random) -> Support {
    if random.distribution.has(random.dtype) {
        Support::Yes
    } else {
        Support::No(format!("the cpu backend draws no {} from {:?}", random.dtype, random.distribution))
    }
}

/// Runs the primitive. A function of its own: what it computes from its constants would be computed for every primitive.
#[inline(never)]
pub(crate) fn run(random: &Random, out: &mut LocalArray) -> Result<()> {
    if random.region.len() != random.whole.len() || random.shape() != *out.shape() {
        return Err(internal(format!("{random:?} into {out:?}")));
    }
    let dtype = random.dtype;
    match (random.distribution, dtype) {
        (Distribution::Uniform { low, high }, DType::F64) => {
            let (range, last) = (high - low, next_below(high, dtype));
            doubles(
                random,
                out,
                #[inline(always)]
                move |long| {
                    let value = low + range * ((long >> 11) as f64 * (1.0 / (1_u64 << 53) as f64));
                    if value < high { value } else { last }
                },
            )
        }
        (Distribution::Normal { mean, std }, DType::F64) => doubles(
            random,
            out,
            #[inline(always)]
            move |long| mean + std * normal_double(long),
        ),
        (Distribution::Uniform { low, high }, DType::F32) => {
            let last = next_below(high, dtype) as f32;
            let (low, high) = (low as f32, high as f32);
            singles(
                random,
                out,
                #[inline(always)]
                move |word| {
                    let value = uniform(word, low, high);
                    if value < high { value } else { last }
                },
            )
        }
        (Distribution::Uniform { low, high }, DType::F16) => narrow_uniform::<f16>(random, out, low, high),
        (Distribution::Uniform { low, high }, DType::BF16) => narrow_uniform::<bf16>(random, out, low, high),
        (Distribution::Normal { mean, std }, DType::F32) => {
            let (mean, std) = (mean as f32, std as f32);
            singles(
                random,
                out,
                #[inline(always)]
                move |word| mean + std * normal(word),
            )
        }
        (Distribution::Normal { mean, std }, DType::F16) => narrow_normal::<f16>(random, out, mean, std),
        (Distribution::Normal { mean, std }, DType::BF16) => narrow_normal::<bf16>(random, out, mean, std),
        (Distribution::Bernoulli { p }, DType::Bool) => {
            // 2^32 for a chance of 1, which no word reaches.
            let bound = (p * 4_294_967_296.0).round() as u64;
            singles(
                random,
                out,
                #[inline(always)]
                move |word| Truth::new(u64::from(word) < bound),
            )
        }
        (other, dtype) => Err(unsupported(format_args!("{dtype} from {other:?}"))),
    }
}

fn narrow_uniform<S: Narrow<Lane = f32>>(
    random: &Random,
    out: &mut LocalArray,
    low: f64,
    high: f64,
) -> Result<()> {
    let last = S::store(next_below(high, random.dtype) as f32);
    let (low, high) = (low as f32, high as f32);
    singles(
        random,
        out,
        #[inline(always)]
        move |word| {
            let value = S::store(uniform(word, low, high));
            if value.load() < high { value } else { last }
        },
    )
}

fn narrow_normal<S: Narrow<Lane = f32>>(
    random: &Random,
    out: &mut LocalArray,
    mean: f64,
    std: f64,
) -> Result<()> {
    let (mean, std) = (mean as f32, std as f32);
    singles(
        random,
        out,
        #[inline(always)]
        move |word| S::store(mean + std * normal(word)),
    )
}

/// Elements of one word each.
fn singles<T: Cell>(
    random: &Random,
    out: &mut LocalArray,
    element: impl Fn(u32) -> T + Copy + Send + Sync,
) -> Result<()> {
    fill(random, out, 1, move |words: &[u32], out: &mut [MaybeUninit<T>]| {
        vectorize(
            #[inline(always)]
            move || {
                for (slot, word) in out.iter_mut().zip(words) {
                    slot.write(element(*word));
                }
            },
        );
    })
}

/// Elements of two words each.
fn doubles(
    random: &Random,
    out: &mut LocalArray,
    element: impl Fn(u64) -> f64 + Copy + Send + Sync,
) -> Result<()> {
    fill(random, out, 2, move |words: &[u32], out: &mut [MaybeUninit<f64>]| {
        vectorize(
            #[inline(always)]
            move || {
                for (slot, pair) in out.iter_mut().zip(words.chunks_exact(2)) {
                    slot.write(element(u64::from(pair[0]) | (u64::from(pair[1]) << 32)));
                }
            },
        );
    })
}

/// Fills an array with elements of `each` words. `convert` writes as many elements as it gets slots, from `each` times as
/// many words.
fn fill<T: Cell>(
    random: &Random,
    out: &mut LocalArray,
    each: usize,
    convert: impl Fn(&[u32], &mut [MaybeUninit<T>]) + Send + Sync,
) -> Result<()> {
    let lines = Lines::new(random);
    let task = |start: usize, out: &mut [MaybeUninit<T>]| {
        let mut walk = lines.walk(start);
        let mut room = Room::default();
        for out in out.chunks_mut(WORDS / each) {
            convert(room.words(random.key, &mut walk, each, out.len()), out);
        }
    };
    let write = |out: &mut [MaybeUninit<T>]| {
        if is_large(out.len().saturating_mul(WEIGHT)) {
            device::chunks(out, TASK, |i, out| task(i * TASK, out));
        } else {
            task(0, out);
        }
        Ok(())
    };
    // SAFETY: the chunks cover the whole slice, and `convert` writes every slot of each: `Room::words` gives as many words
    // as it is asked for.
    unsafe { overwrite::<T>(out, write) }
}

/// The room of one task.
struct Room {
    /// Blocks, with space for those that two elements of a chunk may need at most, and for a full vector.
    blocks: Vec<u64>,
    /// Their words.
    words: Vec<u32>,
    /// Those that are elements, in order.
    dense: Vec<u32>,
    /// What is taken of `words`.
    taken: Vec<Range<usize>>,
}

impl Default for Room {
    fn default() -> Self {
        Self { blocks: Vec::new(), words: Vec::new(), dense: Vec::with_capacity(WORDS), taken: Vec::new() }
    }
}

impl Room {
    /// The words of the next `count` elements, `each` of them for one.
    fn words(&mut self, key: RandomKey, walk: &mut Walk<'_>, each: usize, count: usize) -> &[u32] {
        let per_block = (4 / each) as u64;
        self.blocks.clear();
        self.taken.clear();
        let mut left = count;
        while left > 0 {
            let (first, len) = walk.take(left);
            let (block, end) = (first / per_block, (first + len as u64).div_ceil(per_block));
            let skipped = (first % per_block) as usize * each;
            let start = self.blocks.len() * 4 + skipped;
            self.blocks.extend(block..end);
            self.taken.push(start..start + len * each);
            left -= len;
        }
        self.blocks.resize(self.blocks.len().next_multiple_of(LANES), 0);
        self.words.resize(self.words.len().max(self.blocks.len() * 4), 0);
        philox(key, &self.blocks, &mut self.words);
        if let [one] = &*self.taken {
            return &self.words[one.clone()];
        }
        self.dense.clear();
        for taken in &self.taken {
            self.dense.extend_from_slice(&self.words[taken.clone()]);
        }
        &self.dense
    }
}

/// The words of blocks; their number is a multiple of [`LANES`].
fn philox(key: RandomKey, blocks: &[u64], words: &mut [u32]) {
    vectorize(
        #[inline(always)]
        move || {
            let stream = [key.stream as u32, (key.stream >> 32) as u32];
            let seed = [key.seed as u32, (key.seed >> 32) as u32];
            for (blocks, words) in blocks.chunks_exact(LANES).zip(words.chunks_exact_mut(4 * LANES)) {
                let (mut a, mut b) = ([0_u32; LANES], [0_u32; LANES]);
                let (mut c, mut d) = ([stream[0]; LANES], [stream[1]; LANES]);
                let [mut k, mut l] = seed;
                for i in 0..LANES {
                    (a[i], b[i]) = (blocks[i] as u32, (blocks[i] >> 32) as u32);
                }
                for _ in 0..10 {
                    for i in 0..LANES {
                        let p = u64::from(a[i]) * 0xd251_1f53;
                        let q = u64::from(c[i]) * 0xcd9e_8d57;
                        (a[i], b[i]) = ((q >> 32) as u32 ^ b[i] ^ k, q as u32);
                        (c[i], d[i]) = ((p >> 32) as u32 ^ d[i] ^ l, p as u32);
                    }
                    (k, l) = (k.wrapping_add(0x9e37_79b9), l.wrapping_add(0xbb67_ae85));
                }
                for (i, block) in words.chunks_exact_mut(4).enumerate() {
                    (block[0], block[1], block[2], block[3]) = (a[i], b[i], c[i], d[i]);
                }
            }
        },
    );
}

/// An axis of a result: its local extent, and the global index ranges that it has.
struct Axis {
    extent: usize,
    ranges: SmallVec<[Range<usize>; 2]>,
    /// The difference of the numbers of neighbours.
    stride: u64,
}

/// The axes of a result, as few as possible: what is whole is one with the axis before.
struct Lines {
    outer: SmallVec<[Axis; 4]>,
    last: Axis,
}

impl Lines {
    fn new(random: &Random) -> Self {
        let mut last = Axis { extent: 1, ranges: std::iter::once(0..1).collect(), stride: 1 };
        let mut whole = 1_usize;
        let mut axes = random.whole.iter().zip(&random.region).rev();
        for (extent, ranges) in axes.by_ref() {
            // What is behind this axis is whole: its indices are runs of `whole` elements.
            let scaled = ranges.iter().map(|range| range.start * whole..range.end * whole);
            last.ranges = scaled.filter(|range| !range.is_empty()).collect();
            whole = whole.saturating_mul(*extent);
            if !matches!(&*last.ranges, [one] if *one == (0..whole)) {
                break;
            }
        }
        last.extent = last.ranges.iter().map(|range| range.len()).sum();
        let mut outer: SmallVec<[Axis; 4]> = SmallVec::new();
        let mut stride = whole as u64;
        for (extent, ranges) in axes {
            let ranges: SmallVec<[Range<usize>; 2]> =
                ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
            outer.push(Axis { extent: ranges.iter().map(|range| range.len()).sum(), ranges, stride });
            stride = stride.saturating_mul(*extent as u64);
        }
        outer.reverse();
        Self { outer, last }
    }

    /// From element `start` of the result on, which has elements.
    fn walk(&self, start: usize) -> Walk<'_> {
        let mut at: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.outer.len());
        let extent = self.last.extent.max(1);
        let mut rest = start / extent;
        for (at, axis) in at.iter_mut().zip(&self.outer).rev() {
            *at = rest % axis.extent.max(1);
            rest /= axis.extent.max(1);
        }
        let mut walk = Walk { lines: self, at, base: 0, range: 0, done: 0 };
        walk.rebase();
        walk.skip(start % extent);
        walk
    }
}

/// A place in a result.
struct Walk<'a> {
    lines: &'a Lines,
    /// The local indices on the outer axes.
    at: SmallVec<[usize; 4]>,
    /// The number of the element 0 of the line.
    base: u64,
    /// The range of the last axis, and how much of it is done.
    range: usize,
    done: usize,
}

impl Walk<'_> {
    fn rebase(&mut self) {
        let global = |axis: &Axis, mut at: usize| {
            for range in &axis.ranges {
                if at < range.len() {
                    return range.start + at;
                }
                at -= range.len();
            }
            0
        };
        let numbers =
            self.lines.outer.iter().zip(&self.at).map(|(axis, at)| global(axis, *at) as u64 * axis.stride);
        self.base = numbers.sum();
    }

    /// Leaves out elements of a new line.
    fn skip(&mut self, mut count: usize) {
        while let Some(range) = self.lines.last.ranges.get(self.range) {
            if count < range.len() {
                break;
            }
            count -= range.len();
            self.range += 1;
        }
        self.done = count;
    }

    /// The number of the next element, and how many follow it without a gap, itself among them; at most `most`.
    fn take(&mut self, most: usize) -> (u64, usize) {
        let Some(range) = self.lines.last.ranges.get(self.range) else {
            // Nobody takes from a result without elements.
            return (0, most);
        };
        let (first, len) = (self.base + (range.start + self.done) as u64, most.min(range.len() - self.done));
        self.done += len;
        if self.done == range.len() {
            (self.range, self.done) = (self.range + 1, 0);
            if self.range == self.lines.last.ranges.len() {
                self.range = 0;
                self.next_line();
            }
        }
        (first, len)
    }

    fn next_line(&mut self) {
        for (at, axis) in self.at.iter_mut().zip(&self.lines.outer).rev() {
            *at += 1;
            if *at < axis.extent {
                break;
            }
            *at = 0;
        }
        self.rebase();
    }
}

#[inline(always)]
fn uniform(word: u32, low: f32, high: f32) -> f32 {
    // 24 bits are a signed integer too, whose conversion every machine has for vectors.
    low + (high - low) * ((word >> 8) as i32 as f32 * (1.0 / 16_777_216.0))
}

/// A number of the standard normal distribution.
#[inline(always)]
fn normal(word: u32) -> f32 {
    const SCALE: f32 = 1.0 / 2_147_483_648.0;
    let m = (word & 0x7fff_ffff) as i32;
    // x and 1 - x, each as exact as if the other were not there.
    let inside = (m as f32 + 0.5) * SCALE;
    let outside = ((m ^ 0x7fff_ffff) as f32 + 0.5) * SCALE;
    let z = quantile(inside, outside);
    f32::from_bits(z.to_bits() | (word & 0x8000_0000))
}

/// The z that a normal number exceeds in size with the chance `outside = 1 - inside`: `inside` times a function of
/// `w = -ln(1 - inside^2)`, which Mike Giles found to be nearly straight ("Approximating the erfinv function", 2010). The
/// polynomials are weighted minimax fits made for this crate.
#[inline(always)]
fn quantile(inside: f32, outside: f32) -> f32 {
    let w = -log(outside * (2.0 - outside));
    let near = polynomial(
        w - 3.0,
        [
            2.296_035_3,
            0.341_716_9,
            -0.008_115_578,
            -0.001_182_383_6,
            0.000_276_445_27,
            -1.804_143_7e-5,
            -2.666_263_5e-6,
            6.4429e-7,
            -6.130_518_3e-9,
            -8.240_276e-9,
        ],
    );
    let far = polynomial(
        w.sqrt() - 3.6,
        [
            4.859_596,
            1.425_479_7,
            0.003_852_424_2,
            -0.002_382_887_3,
            0.001_098_347_2,
            -0.000_657_419_3,
            0.000_500_206_1,
            -0.000_246_123_93,
            4.264_627_6e-5,
        ],
    );
    inside * if w < 6.0 { near } else { far }
}

/// A number of the standard normal distribution, by Halley's method from the approximation in f32.
fn normal_double(long: u64) -> f64 {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};
    const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
    let m = (long >> 11) & ((1 << 52) - 1);
    let (inside, outside) = ((2 * m + 1) as f64 * SCALE, ((1_u64 << 53) - (2 * m + 1)) as f64 * SCALE);
    // Beyond what the polynomials were made for, the first terms of the asymptotic series.
    let y = -2.0 * libm::log(outside / 2.0);
    let far = outside < 1e-9;
    let mut z = if far {
        (y - libm::log(y * 2.0 * PI)).sqrt()
    } else {
        quantile(inside as f32, outside as f32).into()
    };
    // Each step triples the digits.
    for _ in 0..if far { 3 } else { 1 } {
        let x = z * FRAC_1_SQRT_2;
        let beyond = if inside < 0.5 { libm::erf(x) - inside } else { outside - libm::erfc(x) };
        let r = beyond / (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * libm::exp(-x * x));
        z -= r / (1.0 + r * z / 2.0);
    }
    if long >> 63 == 1 { -z } else { z }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_core::backend::philox as reference;

    #[test]
    fn vectors_of_blocks_are_those_of_the_paper() {
        let key = RandomKey { seed: 0x299f_31d0_a409_3822, stream: 0x0370_7344_1319_8a2e };
        let blocks: Vec<u64> =
            (0..2 * LANES as u64).map(|i| 0x85a3_08d3_243f_6a88_u64.wrapping_add(i)).collect();
        let mut words = vec![0; 4 * blocks.len()];
        philox(key, &blocks, &mut words);
        assert_eq!(words[..4], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
        for (block, words) in blocks.iter().zip(words.chunks_exact(4)) {
            let counter = [*block as u32, (*block >> 32) as u32, 0x1319_8a2e, 0x0370_7344];
            assert_eq!(reference(counter, [0xa409_3822, 0x299f_31d0]), *words);
        }
    }

    /// erfc of the result gives the chance back.
    #[test]
    fn quantiles_are_right_to_a_few_units_in_the_last_place() {
        let mut worst = 0.0_f64;
        let words = (0..31).flat_map(|bit| (0..200_u32).map(move |i| (i * 7_919) ^ (1 << bit)));
        for word in words.chain([0, 1, 0x7fff_ffff, 0x7fff_fffe, 0x4000_0000]).map(|word| word & 0x7fff_ffff)
        {
            let got = f64::from(normal(word));
            let m = u64::from(word);
            // The same x in f64, or the next: 21 bits more.
            let want = normal_double((2 * m + 1) << 31);
            worst = worst.max((got / want - 1.0).abs());
            assert_eq!(f64::from(normal(word | 0x8000_0000)), -got);
        }
        assert!(worst < 4.0 * f64::from(f32::EPSILON), "{worst}");
    }

    #[test]
    fn the_farthest_numbers_are_finite() {
        for (z, most) in [(f64::from(normal(0x7fff_ffff)), 6.34), (normal_double(u64::MAX >> 1), 8.3)] {
            assert!(z > most - 0.1 && z < most, "{z}");
        }
        assert!(normal(0) > 0.0 && normal_double(0) > 0.0);
    }
}
