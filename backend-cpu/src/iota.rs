//! Counting along an axis.

use crate::element::{Cell, Kind, Narrow, kind, to_odd};
use crate::storage::{overwrite, unsupported};
use half::{bf16, f16};
use sharding_core::backend::{Iota, LocalArray, Support};
use sharding_core::{DType, Result};
use std::mem::MaybeUninit;

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(iota: &Iota) -> Support {
    match kind(iota.dtype) {
        Ok(Kind::Int | Kind::UInt | Kind::Float | Kind::Double) => Support::Yes,
        _ => Support::No(format!("the cpu backend does not count in {}", iota.dtype)),
    }
}

/// Runs the primitive. A function of its own, as that of [`random`](crate::random::run).
#[inline(never)]
pub(crate) fn run(iota: &Iota, out: &mut LocalArray) -> Result<()> {
    let float = |i: usize| iota.start + iota.step * i as f64;
    // Whole numbers stay exact beyond 2^53; fractions are cut off at the end.
    let whole = iota.start.fract() == 0.0 && iota.step.fract() == 0.0;
    let (start, step) = (iota.start as i64, iota.step as i64);
    let int =
        |i: usize| if whole { start.wrapping_add(step.wrapping_mul(i as i64)) } else { float(i) as i64 };
    match iota.dtype {
        DType::F64 => fill(iota, out, float),
        DType::F32 => fill(iota, out, |i| float(i) as f32),
        DType::F16 => fill(iota, out, |i| f16::store(to_odd(float(i)))),
        DType::BF16 => fill(iota, out, |i| bf16::store(to_odd(float(i)))),
        DType::I64 | DType::U64 => fill(iota, out, int),
        DType::I32 | DType::U32 => fill(iota, out, |i| int(i) as i32),
        DType::I16 | DType::U16 => fill(iota, out, |i| int(i) as i16),
        DType::I8 | DType::U8 => fill(iota, out, |i| int(i) as i8),
        other => Err(unsupported(format_args!("counting in {other}"))),
    }
}

fn fill<T: Cell>(iota: &Iota, out: &mut LocalArray, value: impl Fn(usize) -> T) -> Result<()> {
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
