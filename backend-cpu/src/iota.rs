//! Counting along an axis.

use crate::element::Item;
use crate::storage::{overwrite, unsupported};
use sharding_core::backend::{Iota, LocalArray, Support};
use sharding_core::{DType, Result};
use std::mem::MaybeUninit;

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(iota: &Iota) -> Support {
    match iota.dtype {
        DType::I64 | DType::F32 => Support::Yes,
        other => Support::No(format!("the cpu backend does not count in {other}")),
    }
}

/// Runs the primitive.
pub(crate) fn run(iota: &Iota, out: &mut LocalArray) -> Result<()> {
    match iota.dtype {
        DType::F32 => fill(iota, out, |i| (iota.start + iota.step * i as f64) as f32),
        DType::I64 => {
            let (start, step) = (iota.start as i64, iota.step as i64);
            // Whole numbers stay exact beyond 2^53; fractions are cut off at the end.
            if iota.start.fract() == 0.0 && iota.step.fract() == 0.0 {
                fill(iota, out, |i| start.wrapping_add(step.wrapping_mul(i as i64)))
            } else {
                fill(iota, out, |i| (iota.start + iota.step * i as f64) as i64)
            }
        }
        other => Err(unsupported(format_args!("counting in {other}"))),
    }
}

fn fill<T: Item>(iota: &Iota, out: &mut LocalArray, value: impl Fn(usize) -> T) -> Result<()> {
    let extent = out.shape().extent(iota.axis);
    let inner: usize = out.shape().iter().skip(iota.axis + 1).product();
    let write = |out: &mut [MaybeUninit<T>]| {
        // Below, an extent of 0 would divide by 0; there is nothing to write then.
        for (run, slots) in out.chunks_mut(inner.max(1)).enumerate() {
            slots.fill(MaybeUninit::new(value(iota.first + run % extent.max(1))));
        }
        Ok(())
    };
    // SAFETY: the chunks cover the whole slice, and each is filled.
    unsafe { overwrite::<T>(out, write) }
}
