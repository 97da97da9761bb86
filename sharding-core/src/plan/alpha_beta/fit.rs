//! Latency and time per byte from measured collectives.

use super::algorithm::options;
use super::{AlphaBetaCost, Link};
use crate::backend::StepKind;

/// One measured collective.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) kind: StepKind,
    /// Bytes as [`options`] counts them.
    pub(super) bytes: f64,
    /// Devices of a group.
    pub(super) group: usize,
    /// What it took.
    pub(super) seconds: f64,
}

/// The algorithm chosen depends on the link, and the link on the algorithm: so often both are looked at in turn.
const ROUNDS: usize = 16;

/// The link of least squares of relative errors, for a memory whose speed is known. `None` without samples that tell.
///
/// Each sample says `messages * latency + sent * seconds_per_byte = seconds - touched * memory`, divided by its seconds
/// so that small and large messages count alike; two unknowns, solved by the normal equations. Neither may be negative:
/// where one would be, it is 0 and the other is fitted alone.
pub(super) fn link(samples: &[Sample], memory: f64) -> Option<Link> {
    let samples: Vec<&Sample> =
        samples.iter().filter(|sample| sample.seconds.is_finite() && sample.seconds > 0.0).collect();
    // To begin with: as if the largest told the bandwidth, and the smallest the latency.
    let largest = samples.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes))?;
    let smallest = samples.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let mut link = Link {
        latency: smallest.seconds / smallest.group as f64,
        seconds_per_byte: largest.seconds / largest.bytes.max(1.0),
    };
    for _ in 0..ROUNDS {
        let model = AlphaBetaCost { rest: link, axes: Vec::new(), memory };
        let rows: Vec<[f64; 3]> = samples
            .iter()
            .filter_map(|sample| {
                let efforts = options(sample.kind, sample.bytes, sample.group);
                let price = |i: usize| {
                    efforts.get(i).map_or(f64::INFINITY, |(_, effort)| model.seconds(effort, link))
                };
                let best = (0..efforts.len()).min_by(|a, b| price(*a).total_cmp(&price(*b)))?;
                let (_, effort) = efforts.get(best)?;
                let rest = (sample.seconds - effort.touched * memory).max(0.0);
                Some([effort.messages, effort.sent, rest].map(|x| x / sample.seconds))
            })
            .collect();
        let next = solve(&rows)?;
        if next == link {
            break;
        }
        link = next;
    }
    Some(link)
}

/// The least squares of `a * x + b * y = c` over rows `[a, b, c]`, with `x` and `y` not negative.
fn solve(rows: &[[f64; 3]]) -> Option<Link> {
    let dot =
        |i: usize, j: usize| -> f64 { rows.iter().filter_map(|row| Some(row.get(i)? * row.get(j)?)).sum() };
    let (aa, ab, bb, ac, bc) = (dot(0, 0), dot(0, 1), dot(1, 1), dot(0, 2), dot(1, 2));
    let alone = |square: f64, product: f64| if square > 0.0 { product / square } else { 0.0 };
    let determinant = aa * bb - ab * ab;
    let (x, y) = if determinant > 1e-12 * aa * bb {
        ((ac * bb - bc * ab) / determinant, (aa * bc - ab * ac) / determinant)
    } else {
        (alone(aa, ac), 0.0)
    };
    let (x, y) = match (x < 0.0, y < 0.0) {
        (true, _) => (0.0, alone(bb, bc)),
        (_, true) => (alone(aa, ac), 0.0),
        _ => (x, y),
    };
    (x.is_finite() && y.is_finite()).then_some(Link { latency: x.max(0.0), seconds_per_byte: y.max(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReduceOp;

    /// Times that a link would give, each off by some per cent.
    fn samples(truth: Link, memory: f64, group: usize, off: f64) -> Vec<Sample> {
        let model = AlphaBetaCost { rest: truth, axes: Vec::new(), memory };
        let kinds = [
            StepKind::AllGather,
            StepKind::AllToAll,
            StepKind::ReduceScatter(ReduceOp::Sum),
            StepKind::AllReduce(ReduceOp::Sum),
        ];
        let mut sign = 1.0;
        let mut all = Vec::new();
        for kind in kinds {
            for bytes in [1e3, 2e4, 4e5, 8e6] {
                sign = -sign;
                let seconds = model.cheapest(kind, bytes, group, truth).1 * (1.0 + sign * off);
                all.push(Sample { kind, bytes, group, seconds });
            }
        }
        all
    }

    #[test]
    fn a_fit_finds_the_link_that_made_the_times() {
        for truth in [Link::new(2e-6, 50e9), Link::new(3e-5, 1e9), Link::new(5e-7, 450e9)] {
            for group in [2, 3, 6, 8] {
                for (off, bound) in [(0.0, 1e-6), (0.05, 0.2)] {
                    let memory = 1.0 / 3e12;
                    let got = link(&samples(truth, memory, group, off), memory).unwrap();
                    let near = |got: f64, want: f64| (got / want - 1.0).abs() < bound;
                    assert!(
                        near(got.latency, truth.latency)
                            && near(got.seconds_per_byte, truth.seconds_per_byte),
                        "{got:?}, not {truth:?}, over {group} off by {off}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_becomes_negative() {
        // The larger message took less.
        let sample = |bytes, seconds| Sample { kind: StepKind::AllGather, bytes, group: 2, seconds };
        let got = link(&[sample(1e3, 2e-5), sample(1e6, 1e-5)], 0.0).unwrap();
        assert!(got.is_valid() && got.latency > 0.0, "{got:?}");
        assert_eq!(link(&[], 0.0), None);
        assert_eq!(link(&[sample(1e3, 0.0)], 0.0), None);
    }
}
