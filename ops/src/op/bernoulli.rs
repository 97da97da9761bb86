//! Random truth values.

use crate::random::{drawn, wrong};
use sharding_core::backend::Distribution;
use sharding_core::{DType, RandomKey, Result, Shape, Target, Tensor};

/// Truth values, each true with the chance `p`, laid out by `target`: every device makes its own piece, nothing is sent.
///
/// A value depends on the key, the global shape and its global index, as in [`uniform`](fn@crate::uniform): the same key gives the same
/// tensor on every mesh and placement. The chance is `p` rounded to a multiple of 2^-32: 0 is never and 1 always.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["dp"])?;
/// let keep = bernoulli([4, 1000], 0.9, RandomKey::new(42).named("dropout"), &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let kept = keep.to_vec::<bool>()?.iter().filter(|keep| **keep).count();
/// assert!((3500..3700).contains(&kept));
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for a chance that is not in `0.0..=1.0`,
/// [`ErrorKind::Mapping`](crate::ErrorKind::Mapping) for Unknown or a mapping that does not fit the shape.
#[track_caller]
pub fn bernoulli(
    shape: impl Into<Shape>,
    p: f64,
    key: impl Into<RandomKey>,
    target: &(impl Target + ?Sized),
) -> Result<Tensor> {
    drawn("bernoulli", shape.into(), key.into(), DType::Bool, target, || {
        if (0.0..=1.0).contains(&p) {
            Ok(Distribution::Bernoulli { p })
        } else {
            Err(wrong(format!("a chance of {p}"), "give a chance from 0 to 1"))
        }
    })
}
