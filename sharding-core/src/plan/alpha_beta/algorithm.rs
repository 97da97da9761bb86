//! What a collective takes, by algorithm.

use crate::backend::StepKind;
use smallvec::{SmallVec, smallvec};

/// How a collective exchanges its data; the cheapest for the size and the group is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Nothing is exchanged.
    Local,
    /// Every device sends to every other, one after the other (pairwise exchange).
    Direct,
    /// Each device sends to its neighbour, `p - 1` times.
    Ring,
    /// A tree: in each step what a device has doubles (recursive doubling).
    Doubling,
    /// A tree: in each step what a device is to combine halves (recursive halving).
    Halving,
    /// Recursive halving, then recursive doubling (Rabenseifner's algorithm).
    HalvingDoubling,
    /// A tree for any number of devices, with a shift of the data on each device (Bruck's algorithm).
    Bruck,
}

impl Algorithm {
    /// The name used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Local => "local",
            Algorithm::Direct => "direct",
            Algorithm::Ring => "ring",
            Algorithm::Doubling => "doubling tree",
            Algorithm::Halving => "halving tree",
            Algorithm::HalvingDoubling => "halving and doubling tree",
            Algorithm::Bruck => "Bruck's tree",
        }
    }
}

/// What one device does in a collective, one thing after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Effort {
    /// Messages sent.
    pub(super) messages: f64,
    /// Bytes sent.
    pub(super) sent: f64,
    /// Bytes read from and written to its own memory to combine and to shift.
    pub(super) touched: f64,
}

impl Effort {
    const fn new(messages: f64, sent: f64, touched: f64) -> Self {
        Self { messages, sent, touched }
    }

    /// Both, one after the other.
    fn then(self, next: Self) -> Self {
        Self::new(self.messages + next.messages, self.sent + next.sent, self.touched + next.touched)
    }
}

/// Two operands are read and one result is written per byte combined.
const COMBINE: f64 = 3.0;
/// One byte is read and one written per byte copied.
const COPY: f64 = 2.0;

/// The algorithms that can do a step over groups of `p` devices, with what each takes.
///
/// `bytes` is what one device holds of the larger side: all that is gathered, all that is reduced, all that is
/// exchanged, all that a permutation or move brings it.
///
/// Formulas: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", Int. J. High
/// Performance Computing Applications 19(1), 2005, sections 4.1 (allgather: ring, recursive doubling, Bruck), 4.3
/// (alltoall: Bruck, pairwise exchange), 4.4 (reduce-scatter: recursive halving, pairwise exchange) and 4.5 (allreduce:
/// recursive doubling, Rabenseifner: a reduce-scatter, then an allgather, here of any two of the above). With a ring it is
/// that of Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J. Parallel and
/// Distributed Computing 69(2), 2009. Where `p` is no power of two, trees fold the rest in before and out after, as MPICH
/// does: two more messages. What is touched in memory stands for their cost per byte combined, and for the shifts of
/// Bruck's algorithm, which they mention and do not count.
pub(super) fn options(kind: StepKind, bytes: f64, p: usize) -> SmallVec<[(Algorithm, Effort); 3]> {
    use Algorithm::{Bruck, Direct, Doubling, Halving, HalvingDoubling, Local, Ring};
    let n = bytes;
    let devices = p as f64;
    let (floor, ceil) =
        (f64::from(p.max(1).ilog2()), f64::from(p.max(1).next_power_of_two().trailing_zeros()));
    let exact = p.is_power_of_two();
    // The share that comes from, or goes to, other devices.
    let part = |of: f64| (of - 1.0) / of * n;
    let (others, share) = (devices - 1.0, part(devices));
    let folded = part(f64::from(1_u32 << (floor as u32).min(31)));
    let one = |algorithm, effort| smallvec![(algorithm, effort)];
    if p <= 1 && !matches!(kind, StepKind::Permute | StepKind::Move) {
        return one(Local, Effort::default());
    }
    match kind {
        StepKind::Relabel => one(Local, Effort::default()),
        StepKind::LocalSlice => one(Local, Effort::new(0.0, 0.0, COPY * n / devices)),
        StepKind::KeepOneCopy(_) => one(Local, Effort::new(0.0, 0.0, n)),
        StepKind::Permute | StepKind::Move if n == 0.0 => one(Local, Effort::default()),
        StepKind::Permute | StepKind::Move => one(Direct, Effort::new(1.0, n, 0.0)),
        StepKind::AllGather => smallvec![
            (Ring, Effort::new(others, share, 0.0)),
            if exact {
                (Doubling, Effort::new(floor, share, 0.0))
            } else {
                (Bruck, Effort::new(ceil, share, COPY * n))
            },
        ],
        StepKind::ReduceScatter(_) => smallvec![
            (Direct, Effort::new(others, share, COMBINE * share)),
            if exact {
                (Halving, Effort::new(floor, share, COMBINE * share))
            } else {
                (Halving, Effort::new(floor + 2.0, n + folded + n / devices, COMBINE * (n + folded)))
            },
        ],
        StepKind::AllReduce(op) => {
            let fold = if exact { 0.0 } else { 1.0 };
            let steps = floor + 2.0 * fold;
            let mut all: SmallVec<[(Algorithm, Effort); 3]> =
                smallvec![(Doubling, Effort::new(steps, steps * n, COMBINE * (floor + fold) * n))];
            for (reduced, reduce) in options(StepKind::ReduceScatter(op), bytes, p) {
                for (gathered, gather) in options(StepKind::AllGather, bytes, p) {
                    let both = match (reduced, gathered) {
                        (Direct, Ring) => Ring,
                        (Direct, _) => Direct,
                        (_, Ring) => continue,
                        _ => HalvingDoubling,
                    };
                    all.push((both, reduce.then(gather)));
                }
            }
            all
        }
        StepKind::AllToAll => smallvec![
            (Direct, Effort::new(others, share, 0.0)),
            (Bruck, Effort::new(ceil, ceil * n / 2.0, 2.0 * COPY * n)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReduceOp;

    /// Messages and bytes of each algorithm, against the paper's terms for 8 and for 6 devices.
    #[test]
    fn terms_are_those_of_the_paper() {
        let check = |kind, p, want: &[(Algorithm, f64, f64)]| {
            let got: Vec<_> = options(kind, 240.0, p).iter().map(|(a, e)| (*a, e.messages, e.sent)).collect();
            assert_eq!(got, want, "{kind:?} over {p}");
        };
        use Algorithm::{Bruck, Direct, Doubling, Halving, HalvingDoubling, Ring};
        let sum = ReduceOp::Sum;
        check(StepKind::AllGather, 8, &[(Ring, 7.0, 210.0), (Doubling, 3.0, 210.0)]);
        check(StepKind::AllGather, 6, &[(Ring, 5.0, 200.0), (Bruck, 3.0, 200.0)]);
        check(StepKind::ReduceScatter(sum), 8, &[(Direct, 7.0, 210.0), (Halving, 3.0, 210.0)]);
        check(StepKind::ReduceScatter(sum), 6, &[(Direct, 5.0, 200.0), (Halving, 4.0, 240.0 + 180.0 + 40.0)]);
        check(
            StepKind::AllReduce(sum),
            8,
            &[
                (Doubling, 3.0, 720.0),
                (Ring, 14.0, 420.0),
                (Direct, 10.0, 420.0),
                (HalvingDoubling, 6.0, 420.0),
            ],
        );
        check(
            StepKind::AllReduce(sum),
            6,
            &[
                (Doubling, 4.0, 960.0),
                (Ring, 10.0, 400.0),
                (Direct, 8.0, 400.0),
                (HalvingDoubling, 7.0, 660.0),
            ],
        );
        check(StepKind::AllToAll, 8, &[(Direct, 7.0, 210.0), (Bruck, 3.0, 360.0)]);
        check(StepKind::Permute, 8, &[(Direct, 1.0, 240.0)]);
    }

    /// What the search takes for granted: one collective is no dearer than two that do the same.
    #[test]
    fn one_collective_is_no_dearer_than_two() {
        let price = |kind, bytes: f64, p| {
            let seconds = |e: &Effort| e.messages * 3e-6 + e.sent * 2e-11 + e.touched * 3e-13;
            options(kind, bytes, p).iter().map(|(_, e)| seconds(e)).fold(f64::INFINITY, f64::min)
        };
        let sum = ReduceOp::Sum;
        for p in 2..70 {
            for bytes in (0..32_u32).map(|e| f64::from(1_u32 << e.min(31))) {
                let (gather, slice) =
                    (price(StepKind::AllGather, bytes, p), price(StepKind::LocalSlice, bytes, p));
                let (reduce, scatter) = (
                    price(StepKind::AllReduce(sum), bytes, p),
                    price(StepKind::ReduceScatter(sum), bytes, p),
                );
                let exchange = price(StepKind::AllToAll, bytes / p as f64, p);
                assert!(reduce <= (scatter + gather) * (1.0 + 1e-12), "all_reduce of {bytes} over {p}");
                assert!(scatter <= reduce + slice, "reduce_scatter of {bytes} over {p}");
                assert!(exchange <= gather + slice, "all_to_all of {bytes} over {p}");
            }
        }
    }
}
