//! Random numbers by counter: an element is a function of the key and of its global index, of nothing else.

use crate::{DType, Region, Scalar, Shape};
use std::fmt;

/// What tells the numbers of one random tensor from those of others: a seed, and a stream of it.
///
/// Equal keys give equal numbers, on every mesh, placement and number of processes; keys that differ in either part give
/// numbers that have nothing to do with each other. A program has one seed, and each of its tensors a stream, best by its
/// name: then a parameter keeps its numbers when others are added.
///
/// ```
/// use sharding_core::RandomKey;
/// let key = RandomKey::new(42);
/// assert_eq!(key, 42.into());
/// assert_ne!(key.named("q.weight"), key.named("k.weight"));
/// assert_eq!(key.with_stream(3), RandomKey { seed: 42, stream: 3 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RandomKey {
    /// The key of Philox.
    pub seed: u64,
    /// The upper half of its counter.
    pub stream: u64,
}

impl RandomKey {
    /// Stream 0 of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed, stream: 0 }
    }

    /// Another stream of the same seed.
    #[must_use]
    pub const fn with_stream(self, stream: u64) -> Self {
        Self { stream, ..self }
    }

    /// The stream of a name within this one: FNV-1a of its bytes, from the stream that there is, and the finalizer of
    /// splitmix64 (Steele, Lea and Flood, 2014). Names give equal streams by accident only, one pair in 2^64.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let start = 0xcbf2_9ce4_8422_2325 ^ self.stream;
        let hash = name
            .bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let z = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.with_stream(z ^ (z >> 31))
    }

    /// The four words of a block; see [`Random`].
    pub fn block(self, block: u64) -> [u32; 4] {
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let ([a, b], [c, d]) = (halves(block), halves(self.stream));
        philox([a, b, c, d], halves(self.seed))
    }
}

impl From<u64> for RandomKey {
    fn from(seed: u64) -> Self {
        Self::new(seed)
    }
}

impl fmt::Display for RandomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} stream {:#x}", self.seed, self.stream)
    }
}

/// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011): four
/// words from a counter and a key.
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut k, mut l]) = (counter, key);
    for _ in 0..10 {
        let p = u64::from(a) * 0xd251_1f53;
        let q = u64::from(c) * 0xcd9e_8d57;
        (a, b, c, d) = ((q >> 32) as u32 ^ b ^ k, q as u32, (p >> 32) as u32 ^ d ^ l, p as u32);
        (k, l) = (k.wrapping_add(0x9e37_79b9), l.wrapping_add(0xbb67_ae85));
    }
    [a, b, c, d]
}

/// Random elements of some index ranges of a whole; see [`Primitive::Random`](super::Primitive::Random).
///
/// Element `n` of the whole, counted row-major, is made of the words of block `b` of its [`RandomKey`]:
/// [`philox`] of the counter `[b, b >> 32, stream, stream >> 32]` and the key `[seed, seed >> 32]`.
/// In [`DType::F64`] it has two words, `2 (n % 2)` and the next of block `n / 2`, the first being the lower half of one of 64
/// bits; in all other dtypes one, word `n % 4` of block `n / 4`. What becomes of the words, [`Distribution`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct Random {
    /// How numbers are distributed.
    pub distribution: Distribution,
    /// Which numbers they are.
    pub key: RandomKey,
    /// The global shape, in which elements are numbered.
    pub whole: Shape,
    /// The global index ranges that the result has, per tensor axis and in their order.
    pub region: Region,
    /// The result's dtype.
    pub dtype: DType,
}

/// How random numbers are distributed, and by what arithmetic they come from words.
///
/// f16 and bf16 are computed in f32 and rounded once at the end. No step is fused with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Equal chances in `[low, high)`, for floats: `low + (high - low) * u`, each step rounded, with `u` the upper 24 bits of
    /// the word times 2^-24 (of f64: the upper 53 times 2^-53). Where that rounds to `high` or beyond, it is the greatest
    /// number of the dtype below. Bit for bit the same in every backend.
    Uniform {
        /// The least number, one of the dtype.
        low: f64,
        /// What all numbers are below, a number of the dtype; `high - low` is finite.
        high: f64,
    },
    /// The normal distribution, for floats: `mean + std * z`, with `z` the quantile of the standard normal distribution at
    /// `(1 + x) / 2`, where `x = (2 m + 1) / 2^32` for the lower 31 bits `m` of the word (of f64: `(2 m + 1) / 2^53` for the
    /// 52 bits below the highest), and negated if the highest bit is set. So `z` is never 0 and at most 6.34 (8.3) away
    /// from it. The quantile is right to 4 units in the last place; backends may differ by as much, the
    /// placements of one do not differ at all.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation, at least 0.
        std: f64,
    },
    /// True with this chance, in bool: where the word is below `p * 2^32`, rounded to an integer.
    Bernoulli {
        /// The chance, from 0 to 1.
        p: f64,
    },
}

impl Distribution {
    /// Whether there are such numbers in a dtype.
    pub fn has(&self, dtype: DType) -> bool {
        match self {
            Self::Uniform { .. } | Self::Normal { .. } => dtype.is_float(),
            Self::Bernoulli { .. } => dtype == DType::Bool,
        }
    }

    /// What the size of `z` never exceeds; see [`Distribution::Normal`].
    pub const fn farthest(dtype: DType) -> f64 {
        if matches!(dtype, DType::F64) { 8.3 } else { 6.34 }
    }
}

impl Random {
    /// The shape of the result.
    pub fn shape(&self) -> Shape {
        self.region.iter().map(|ranges| ranges.iter().map(|range| range.len()).sum::<usize>()).collect()
    }
}

/// The greatest number of a float dtype below a finite one of it.
pub fn next_below(value: f64, dtype: DType) -> f64 {
    // Numbers of a dtype in their order are their bits in order, those below 0 backwards.
    fn step(bits: u64, sign: u64) -> u64 {
        match bits {
            0 => sign | 1,
            _ if bits == sign => sign | 1,
            _ if bits & sign == 0 => bits - 1,
            _ => bits + 1,
        }
    }
    let Some(bytes) = Scalar::Float(value).to_bytes(dtype) else { return value };
    match (dtype, bytes.as_slice()) {
        (DType::F16, &[a, b]) => {
            let bits = step(u16::from_ne_bytes([a, b]).into(), 1 << 15);
            half::f16::from_bits(bits as u16).to_f64()
        }
        (DType::BF16, &[a, b]) => {
            let bits = step(u16::from_ne_bytes([a, b]).into(), 1 << 15);
            half::bf16::from_bits(bits as u16).to_f64()
        }
        (DType::F32, _) => f64::from(f32::from_bits(step((value as f32).to_bits().into(), 1 << 31) as u32)),
        (DType::F64, _) => f64::from_bits(step(value.to_bits(), 1 << 63)),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that come with Random123, the code of the paper.
    #[test]
    fn philox_gives_the_known_answers() {
        let all = u32::MAX;
        for (counter, key, want) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([all; 4], [all; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox(counter, key), want);
        }
    }

    #[test]
    fn a_block_is_counter_and_key_in_halves() {
        let key = RandomKey { seed: 0x299f_31d0_a409_3822, stream: 0x0370_7344_1319_8a2e };
        assert_eq!(key.block(0x85a3_08d3_243f_6a88), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn names_give_streams_of_their_own() {
        let key = RandomKey::new(7);
        let names = ["", "a", "b", "ab", "ba", "layers.0.q", "layers.1.q"];
        let streams: Vec<RandomKey> = names.iter().map(|name| key.named(name)).collect();
        for (i, stream) in streams.iter().enumerate() {
            assert!(!streams[..i].contains(stream), "{}", names[i]);
            assert_eq!(stream.seed, 7);
        }
        assert_ne!(key.named("a").named("b"), key.named("ab"));
        // Part of the contract: another answer would change what programs made of a seed.
        assert_eq!(RandomKey::new(0).named("layers.0.q").stream, 17_745_087_226_687_773_526);
    }

    #[test]
    fn the_number_below_is_the_next() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            for value in [1.0, 0.0, -1.0, 0.5, -3.0, -0.0] {
                let below = next_below(value, dtype);
                assert!(below < value, "{dtype} {value}");
                let between = Scalar::Float(below + (value - below) / 2.0).to_bytes(dtype);
                let ends = [below, value].map(|end| Scalar::Float(end).to_bytes(dtype));
                assert!(ends.contains(&between) || value == 0.0, "{dtype} {value} {below}");
            }
            assert_eq!(next_below(1.0, dtype), 1.0 - dtype.epsilon() / 2.0);
        }
    }
}
