//! Kernels in one pass: each row of softmax, layer_norm and rms_norm is read once from memory.

use crate::attention;
use crate::copy::Transfer;
use crate::device::{self, is_large, vectorize};
use crate::dot;
use crate::element::{Slot, exp};
use crate::reduce::{Max, Sum, row};
use crate::storage::{View, internal, overwrite, unsupported};
use sharding_core::backend::{FusedOp, LocalArray, LocalMeta, Support};
use sharding_core::{DType, Result};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Elements per task of the pool.
const TASK: usize = 1 << 14;
/// What an element costs compared with an addition.
const WEIGHT: usize = 8;

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(op: &FusedOp, inputs: &[LocalMeta]) -> Support {
    let floats = inputs.iter().all(|input| input.dtype == DType::F32);
    let fits = match (op, inputs) {
        (FusedOp::Softmax { axis }, [x]) => *axis < x.shape.len(),
        (FusedOp::LayerNorm { .. }, [x, gamma, beta]) => match x.shape.last() {
            Some(n) => [gamma, beta].iter().all(|vector| *vector.shape == [*n]),
            None => false,
        },
        (FusedOp::Linear, [x, weight, bias @ ..]) => match (&*weight.shape, x.shape.last()) {
            ([n, k], Some(inner)) => {
                x.shape.len() >= 2
                    && k == inner
                    && bias.len() < 2
                    && bias.iter().all(|bias| *bias.shape == [*n])
            }
            _ => false,
        },
        (FusedOp::RmsNorm { .. }, [x, weight]) => x.shape.last().is_some_and(|n| *weight.shape == [*n]),
        (FusedOp::Attention(op), _) => return attention::supports(op, inputs),
        _ => false,
    };
    if floats && fits { Support::Yes } else { Support::No(format!("{op:?} of {inputs:?}")) }
}

/// Runs the primitive.
pub(crate) fn run(op: &FusedOp, inputs: &[&LocalArray], out: &mut LocalArray) -> Result<()> {
    if let FusedOp::Attention(op) = op {
        return attention::run(op, inputs, out);
    }
    let metas: SmallVec<[&LocalMeta; 4]> = inputs.iter().map(|input| input.meta()).collect();
    if op.result(&metas).is_none_or(|(_, shape)| shape != *out.shape()) {
        return Err(internal(format!("{op:?} into {out:?}")));
    }
    if inputs.iter().any(|input| input.dtype() != DType::F32) {
        return Err(unsupported(format_args!("{op:?} of {inputs:?}")));
    }
    match (op, inputs) {
        (FusedOp::Softmax { axis }, [x]) => softmax(x, *axis, out),
        (FusedOp::LayerNorm { eps }, [x, gamma, beta]) => layer_norm(x, gamma, beta, *eps as f32, out),
        (FusedOp::Linear, [x, weight]) => dot::linear(x, weight, None, out),
        (FusedOp::Linear, [x, weight, bias]) => dot::linear(x, weight, Some(bias), out),
        (FusedOp::RmsNorm { eps }, [x, weight]) => rms_norm(x, weight, *eps as f32, out),
        _ => Err(unsupported(format_args!("{op:?} of {} inputs", inputs.len()))),
    }
}

/// Runs `one(row, room, result)` on rows of `n` elements, over the pool where there are many; room is for 2n elements.
fn rows<O: Slot<f32>>(
    x: &[f32],
    n: usize,
    out: &mut [O],
    one: impl Fn(&[f32], &mut [f32], &mut [O]) + Send + Sync,
) {
    let room = || vec![0.0; 2 * n];
    if is_large(x.len().saturating_mul(WEIGHT)) {
        let least = (TASK / n).max(1);
        device::chunks(out, least * n, |i, out| {
            let (mut room, x) = (room(), &x[i * least * n..]);
            out.chunks_mut(n).zip(x.chunks(n)).for_each(|(out, x)| one(x, &mut room, out));
        });
    } else {
        let mut room = room();
        out.chunks_mut(n).zip(x.chunks(n)).for_each(|(out, x)| one(x, &mut room, out));
    }
}

/// `out[i] = f(x[i])`, vectorised.
#[inline(always)]
fn each(x: &[f32], out: &mut [f32], f: impl Fn(f32) -> f32) {
    vectorize(
        #[inline(always)]
        move || {
            for (slot, x) in out.iter_mut().zip(x) {
                *slot = f(*x);
            }
        },
    );
}

/// A row of softmax; `powers` has room for one.
fn softmax_row<O: Slot<f32>>(x: &[f32], powers: &mut [f32], out: &mut [O]) {
    let powers = &mut powers[..x.len()];
    let max = row::<Max, f32>(x);
    each(
        x,
        powers,
        #[inline(always)]
        move |x| exp(x - max),
    );
    let sum = row::<Sum, f32>(powers);
    vectorize(
        #[inline(always)]
        move || {
            for (slot, power) in out.iter_mut().zip(&*powers) {
                slot.put(*power / sum);
            }
        },
    );
}

fn softmax(x: &LocalArray, axis: usize, out: &mut LocalArray) -> Result<()> {
    let n = x.shape().extent(axis);
    if axis >= x.shape().len() {
        return Err(internal(format!("a softmax of {x:?} along axis {axis}")));
    }
    if x.elements() == 0 {
        return Ok(());
    }
    if axis + 1 == x.shape().len() {
        let view = View::<f32>::of(x)?;
        // SAFETY: `rows` hands out all of `out`, and `softmax_row` writes every element of a row.
        return unsafe {
            overwrite::<f32>(out, |out| {
                rows(&view.to_dense(), n, out, softmax_row);
                Ok(())
            })
        };
    }
    // Rows of another axis are brought together first.
    let mut axes: SmallVec<[usize; 4]> = (0..x.shape().len()).filter(|other| *other != axis).collect();
    axes.push(axis);
    let moved = x.permute(&axes);
    let dense = View::<f32>::of(&moved)?.to_dense();
    let mut results = vec![0.0; dense.len()];
    rows(&dense, n, &mut results, softmax_row);
    let steps = out.shape().strides();
    let strides: SmallVec<[isize; 4]> = axes.iter().map(|axis| steps[*axis]).collect();
    let back = Transfer::new(moved.shape(), (&strides, 0), (&moved.shape().strides(), 0));
    // SAFETY: the transfer goes over every index of a contiguous array of the shape of `out`, in another order of axes.
    unsafe {
        overwrite::<f32>(out, |out| {
            back.run(&results, out, None);
            Ok(())
        })
    }
}

fn layer_norm(
    x: &LocalArray,
    gamma: &LocalArray,
    beta: &LocalArray,
    eps: f32,
    out: &mut LocalArray,
) -> Result<()> {
    if x.elements() == 0 {
        return Ok(());
    }
    let (view, gamma, beta) =
        (View::<f32>::of(x)?, View::<f32>::of(gamma)?.to_dense(), View::<f32>::of(beta)?.to_dense());
    let n = x.shape().last().copied().unwrap_or(1);
    if gamma.len() != n || beta.len() != n {
        return Err(internal(format!("a layer norm of {x:?} by {} and {} factors", gamma.len(), beta.len())));
    }
    let (gamma, beta) = (&*gamma, &*beta);
    let one = |x: &[f32], room: &mut [f32], out: &mut [MaybeUninit<f32>]| {
        let (centred, squares) = room.split_at_mut(n);
        let count = n as f32;
        let mean = row::<Sum, f32>(x) / count;
        each(x, centred, move |x| x - mean);
        each(centred, squares, |x| x * x);
        let deviation = (row::<Sum, f32>(squares) / count + eps).sqrt();
        vectorize(
            #[inline(always)]
            move || {
                let factors = gamma.iter().zip(beta);
                for ((slot, x), (gamma, beta)) in out.iter_mut().zip(&*centred).zip(factors) {
                    slot.put(*x / deviation * *gamma + *beta);
                }
            },
        );
    };
    // SAFETY: `rows` hands out all of `out`; `gamma`, `beta` and `centred` have a row's length, so that `one` writes
    // every element of a row.
    unsafe {
        overwrite::<f32>(out, |out| {
            rows(&view.to_dense(), n, out, one);
            Ok(())
        })
    }
}

fn rms_norm(x: &LocalArray, weight: &LocalArray, eps: f32, out: &mut LocalArray) -> Result<()> {
    if x.elements() == 0 {
        return Ok(());
    }
    let (view, weight) = (View::<f32>::of(x)?, View::<f32>::of(weight)?.to_dense());
    let n = x.shape().last().copied().unwrap_or(1);
    if weight.len() != n {
        return Err(internal(format!("an rms norm of {x:?} by {} factors", weight.len())));
    }
    let weight = &*weight;
    let one = |x: &[f32], room: &mut [f32], out: &mut [MaybeUninit<f32>]| {
        let squares = &mut room[..n];
        each(x, squares, |x| x * x);
        let root = (row::<Sum, f32>(squares) / n as f32 + eps).sqrt();
        vectorize(
            #[inline(always)]
            move || {
                for ((slot, x), weight) in out.iter_mut().zip(x).zip(weight) {
                    slot.put(*x / root * *weight);
                }
            },
        );
    };
    // SAFETY: `rows` hands out all of `out`, and `x` and `weight` have a row's length, so that `one` writes every element
    // of a row.
    unsafe {
        overwrite::<f32>(out, |out| {
            rows(&view.to_dense(), n, out, one);
            Ok(())
        })
    }
}
