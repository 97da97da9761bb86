//! Random numbers of the normal distribution.

use crate::random::{drawn, fits, no_float, wrong};
use sharding_core::backend::Distribution;
use sharding_core::{DType, RandomKey, Result, Shape, Target, Tensor};

/// Random numbers of the normal distribution with this mean and standard deviation, laid out by `target`: every device
/// makes its own piece, nothing is sent.
///
/// A number depends on the key, the global shape and its global index, as in [`uniform`](fn@crate::uniform): the same key gives the same
/// tensor on every mesh and placement, to the last bit. All are finite.
///
/// They are `mean + std * z`, with `z` the quantile of the standard normal distribution at a number in `(0, 1)` of 32 bits
/// (of f64: 53), which both tails have alike: an element is made of words of its own, where the method of Box and Muller
/// makes pairs, whose halves may lie on two devices. `|z|` is at most 6.34 (8.3); the chance of more is 2^-32 (2^-53). f16 and bf16
/// are computed in f32 and rounded at the end.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = normal([2000], 5.0, 0.5, 42, DType::F64, &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let mean = x.to_vec::<f64>()?.iter().sum::<f64>() / 2000.0;
/// assert!((mean - 5.0).abs() < 0.05);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for a dtype that is no float, [`ErrorKind::Argument`](crate::ErrorKind::Argument) for a
/// deviation below 0, or numbers that may not be finite in the dtype, [`ErrorKind::Mapping`](crate::ErrorKind::Mapping) for
/// Unknown or a mapping that does not fit the shape.
#[track_caller]
pub fn normal(
    shape: impl Into<Shape>,
    mean: f64,
    std: f64,
    key: impl Into<RandomKey>,
    dtype: DType,
    target: &(impl Target + ?Sized),
) -> Result<Tensor> {
    drawn("normal", shape.into(), key.into(), dtype, target, || {
        if !dtype.is_float() {
            return Err(no_float(dtype));
        }
        if std.is_nan() || std < 0.0 {
            return Err(wrong(
                format!("a standard deviation of {std}"),
                "give the square root of the variance, at least 0",
            ));
        }
        let most = mean.abs() + std * Distribution::farthest(dtype);
        if !fits(most, dtype) {
            return Err(wrong(
                format!("numbers about {mean} with the deviation {std} are not all finite in {dtype}"),
                "use a smaller mean and deviation, or a wider dtype",
            ));
        }
        Ok(Distribution::Normal { mean, std })
    })
}
