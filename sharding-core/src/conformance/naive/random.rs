//! Random numbers as their definition reads: one element at a time, quantiles by bisection.

use super::super::host::{flat_indices, rounded};
use crate::backend::{Distribution, Random, next_below};
use crate::{DType, Scalar};
use std::f64::consts::FRAC_1_SQRT_2;

pub(super) fn random(random: &Random, dtype: DType) -> Option<Vec<Scalar>> {
    if dtype != random.dtype || !random.distribution.has(dtype) || random.region.len() != random.whole.len() {
        return None;
    }
    let elements = flat_indices(&random.whole, &random.region).into_iter();
    elements.map(|n| element(random, n as u64)).collect()
}

/// Element `n` of the whole.
fn element(random: &Random, n: u64) -> Option<Scalar> {
    let dtype = random.dtype;
    let double = dtype == DType::F64;
    let (word, long) = if double {
        let words = random.key.block(n / 2);
        let at = 2 * (n % 2) as usize;
        (0, u64::from(*words.get(at)?) + (u64::from(*words.get(at + 1)?) << 32))
    } else {
        (*random.key.block(n / 4).get((n % 4) as usize)?, 0)
    };
    Some(match random.distribution {
        Distribution::Bernoulli { p } => Scalar::Bool(u64::from(word) < (p * 4_294_967_296.0).round() as u64),
        Distribution::Uniform { low, high } => {
            let value = if double {
                let u = (long >> 11) as f64 / (1_u64 << 53) as f64;
                low + (high - low) * u
            } else {
                let (low, high) = (low as f32, high as f32);
                let u = (word >> 8) as f32 / 16_777_216.0;
                rounded((low + (high - low) * u).into(), dtype).as_f64()
            };
            Scalar::Float(if value < high { value } else { next_below(high, dtype) })
        }
        Distribution::Normal { mean, std } => {
            let (negative, m, bits) = if double {
                (long >> 63 == 1, (long >> 11) & ((1 << 52) - 1), 52)
            } else {
                (word >> 31 == 1, u64::from(word & 0x7fff_ffff), 31)
            };
            let z = quantile(m, bits);
            let z = if negative { -z } else { z };
            rounded(mean + std * z, dtype)
        }
    })
}

/// The `z` whose chance to be exceeded in size is `1 - x`, for `x = (2 m + 1) / 2^(bits + 1)`.
fn quantile(m: u64, bits: u32) -> f64 {
    let scale = (2_u64 << bits) as f64;
    let inside = (2 * m + 1) as f64 / scale;
    let outside = ((2_u64 << bits) - (2 * m + 1)) as f64 / scale;
    let beyond = |z: f64| {
        if z < 2.5 { super::erf(z * FRAC_1_SQRT_2) > inside } else { tails(z) < outside }
    };
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..70 {
        let middle = (low + high) / 2.0;
        *(if beyond(middle) { &mut high } else { &mut low }) = middle;
    }
    low
}

/// The chance that a normal number is farther than `z` from 0, by Laplace's continued fraction.
fn tails(z: f64) -> f64 {
    let fraction = (1..=200).rev().fold(z, |rest, k| z + f64::from(k) / rest);
    (-z * z / 2.0).exp() * std::f64::consts::FRAC_2_SQRT_PI * FRAC_1_SQRT_2 / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // 2 m + 1 is x of 2^32, near enough for these digits.
        for (x, z) in [(0.5, 0.674_489_750), (0.95, 1.959_963_985), (0.998, 3.090_232_306)] {
            let m = (x * 2_147_483_648.0) as u64;
            assert!((quantile(m, 31) - z).abs() < 2e-7, "{x}");
        }
        let most = quantile((1 << 31) - 1, 31);
        assert!(6.33 < most && most < Distribution::farthest(DType::F32), "{most}");
        let most = quantile((1 << 52) - 1, 52);
        assert!(8.2 < most && most < Distribution::farthest(DType::F64), "{most}");
        // Both ways to the same number.
        assert!((tails(2.5) + super::super::erf(2.5 * FRAC_1_SQRT_2) - 1.0).abs() < 1e-15);
    }
}
