//! Random numbers of equal chances.

use crate::random::{drawn, fits, no_float, rounded, wrong};
use sharding_core::backend::Distribution;
use sharding_core::{DType, RandomKey, Result, Shape, Target, Tensor};
use std::ops::Range;

/// Random numbers of equal chances in `range`, its end left out, laid out by `target`: every device makes its own piece,
/// nothing is sent.
///
/// A number depends on the key, the global shape and its global index: the same key gives the same tensor on every mesh,
/// placement and number of processes, to the last bit. On a Partial axis the numbers count once. A seed is a key; tensors of
/// one program take [streams](RandomKey) of it, or they have the same numbers.
///
/// The numbers are `start + (end - start) * u`, each step rounded to the dtype (f16 and bf16: computed in f32 and rounded at the
/// end), where `u` is a multiple of 2^-24 in `[0, 1)` (of f64: of 2^-53), the upper bits of words of Philox 4x32-10; where
/// that would round to `end`, the greatest number below it. [`Distribution`](sharding_core::backend::Distribution) says it word by
/// word.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let key = RandomKey::new(42).named("weight");
/// let split = uniform([3, 4], -1.0..1.0, key, DType::F32, &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let whole = uniform([3, 4], -1.0..1.0, key, DType::F32, &DeviceMapping::replicated(&mesh))?;
/// assert_eq!(split.to_vec::<f32>()?, whole.to_vec::<f32>()?);
/// assert!(whole.to_vec::<f32>()?.iter().all(|x| (-1.0..1.0).contains(x)));
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for a dtype that is no float, [`ErrorKind::Argument`](crate::ErrorKind::Argument) for a
/// range that is empty in the dtype, or whose ends or length are not finite in it,
/// [`ErrorKind::Mapping`](crate::ErrorKind::Mapping) for Unknown or a mapping that does not fit the shape.
#[track_caller]
pub fn uniform(
    shape: impl Into<Shape>,
    range: Range<f64>,
    key: impl Into<RandomKey>,
    dtype: DType,
    target: &(impl Target + ?Sized),
) -> Result<Tensor> {
    drawn("uniform", shape.into(), key.into(), dtype, target, || {
        if !dtype.is_float() {
            return Err(no_float(dtype));
        }
        let (low, high) = (rounded(range.start, dtype), rounded(range.end, dtype));
        let ends = if (low, high) == (range.start, range.end) {
            String::new()
        } else {
            format!(", {low}..{high} in {dtype}")
        };
        if low.is_nan() || high.is_nan() || low >= high {
            return Err(wrong(
                format!("there is no number in {range:?}{ends}"),
                "give the lesser number first, as in 0.0..1.0",
            ));
        }
        let length = if dtype == DType::F64 { high - low } else { f64::from(high as f32 - low as f32) };
        if !(fits(low.abs(), dtype) && fits(high.abs(), dtype) && length.is_finite()) {
            return Err(wrong(
                format!("{range:?} is not finite in {dtype}{ends}"),
                "use nearer ends, or a wider dtype",
            ));
        }
        Ok(Distribution::Uniform { low, high })
    })
}
