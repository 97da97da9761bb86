//! Collectives between the slots of one CPU, and the sum of parts that some of them launch.

use crate::CpuBackend;
use crate::device::{self, vectorize};
use crate::element::Item;
use crate::storage::{dense, overwrite};
use sharding_core::Result;
use sharding_core::backend::{
    BinaryOp, Collectives, Exchange, Expr, InProcess, LocalArray, LocalArrays, Node, Step, Support,
};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// The collectives of this backend.
pub(crate) static COLLECTIVES: CpuCollectives = CpuCollectives { generic: InProcess(&CpuBackend) };

/// All shards are in this process.
pub(crate) struct CpuCollectives {
    generic: InProcess<'static>,
}

impl Collectives for CpuCollectives {
    fn supports(&self, step: &Step) -> Support {
        self.generic.supports(step)
    }

    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        self.generic.run(op, step, shards)
    }

    fn exchange(
        &self,
        op: &'static str,
        exchange: &Exchange<'_>,
        shards: &[LocalArrays],
    ) -> Result<LocalArrays> {
        self.generic.exchange(op, exchange, shards)
    }
}

/// The most parts that are summed in one pass.
const MOST: usize = 8;
/// Elements of the result that stay in the first cache between the two halves of a sum.
const CHUNK: usize = 2048;
/// Elements per task of the pool.
const TASK: usize = 16 * CHUNK;

/// The sum of three to eight arrays by the tree of collectives, read once each; `None` for another expression, and for arrays
/// that do not lie in order.
pub(crate) fn sum<T: Item>(
    expr: &Expr,
    inputs: &[&LocalArray],
    out: &mut LocalArray,
    large: bool,
) -> Option<Result<()>> {
    let (nodes, n) = (expr.nodes(), inputs.len());
    if !(3..=MOST).contains(&n) || nodes.len() != 2 * n - 1 || !is_sum(nodes, nodes.len() - 1, 0, n) {
        return None;
    }
    let mut parts: SmallVec<[&[T]; MOST]> = SmallVec::new();
    for input in inputs {
        if **input.shape() != **out.shape() {
            return None;
        }
        parts.push(dense(input)?);
    }
    let write = |out: &mut [MaybeUninit<T>]| {
        if large {
            device::chunks(out, TASK, |i, out| add_up(&parts, i * TASK, out));
        } else {
            add_up(&parts, 0, out);
        }
        Ok(())
    };
    // SAFETY: the chunks are the whole slice, and `add_up` writes every element of each.
    Some(unsafe { overwrite::<T>(out, write) })
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

/// Writes every element of `out`: the sum of the elements from `start` on of all parts, in the order of the tree.
fn add_up<T: Item>(parts: &[&[T]], start: usize, out: &mut [MaybeUninit<T>]) {
    for (number, out) in out.chunks_mut(CHUNK).enumerate() {
        let parts: SmallVec<[&[T]; MOST]> =
            parts.iter().map(|part| &part[start + number * CHUNK..]).collect();
        let (left, right) = parts.split_at(parts.len().div_ceil(2));
        match *left {
            [a] => combine!(|slot of out, a| slot.write(a)),
            [a, b] => combine!(|slot of out, a, b| slot.write(T::plus(a, b))),
            [a, b, c] => combine!(|slot of out, a, b, c| slot.write(T::plus(T::plus(a, b), c))),
            [a, b, c, d] => {
                combine!(|slot of out, a, b, c, d| slot.write(T::plus(T::plus(a, b), T::plus(c, d))))
            }
            // `sum` has looked at the number of parts.
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let slices: Vec<&[f32]> = parts.iter().map(Vec::as_slice).collect();
            let mut out = vec![MaybeUninit::new(f32::NAN); len];
            add_up(&slices, 5, &mut out);
            for (i, found) in out.iter().enumerate() {
                // SAFETY: the vector was made of values.
                let found = unsafe { found.assume_init() };
                let column: Vec<f32> = (0..n).map(|part| value(part, i + 5)).collect();
                assert_eq!(found.to_bits(), tree(&column).to_bits());
            }
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
