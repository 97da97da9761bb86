//! What the random ops share: one key, a region of the whole on each device.

use crate::made::{Wanted, mapping_of};
use sharding_core::backend::{Distribution, Random};
use sharding_core::{DType, Error, ErrorKind, RandomKey, Region, Result, Scalar, Shape, Target, Tensor};

/// The greatest finite number of a float dtype.
fn greatest(dtype: DType) -> f64 {
    sharding_core::backend::next_below(f64::INFINITY, dtype)
}

/// A number as one of the dtype.
pub(crate) fn rounded(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => sharding_core::half::f16::from_f64(value).to_f64(),
        DType::BF16 => sharding_core::half::bf16::from_f64(value).to_f64(),
        DType::F32 => f64::from(value as f32),
        _ => value,
    }
}

/// An error of the arguments.
pub(crate) fn wrong(message: String, fix: &str) -> Error {
    Error::new(ErrorKind::Argument, message).with_fix(fix)
}

/// Whether all numbers up to this size are finite in the dtype.
pub(crate) fn fits(size: f64, dtype: DType) -> bool {
    size <= greatest(dtype)
}

/// A tensor of random numbers; `distribution` checks its arguments for the dtype.
#[track_caller]
pub(crate) fn drawn(
    op: &'static str,
    shape: Shape,
    key: RandomKey,
    dtype: DType,
    target: &(impl Target + ?Sized),
    distribution: impl FnOnce() -> Result<Distribution>,
) -> Result<Tensor> {
    let whole = shape.clone();
    let mapping = mapping_of(op, dtype, &shape, target)?;
    let wanted = Wanted { op, dtype, shape, mapping: &mapping };
    let distribution = distribution().map_err(|error| wanted.located(error))?;
    let identity = mapping.places().iter().find_map(|place| place.reduce_op()).map(|op| op.identity(dtype));
    wanted.make(
        |cx| match identity {
            // Parts that count for nothing.
            Some(identity) if !cx.is_first_part(0)? => {
                Ok((Region::new(), Some((identity, cx.result_shape(0)?))))
            }
            _ => Ok((cx.result_region(0)?, None)),
        },
        |cx, (region, filled): &(Region, Option<(Scalar, Shape)>)| match filled {
            Some((identity, shape)) => cx.fill(*identity, dtype, shape),
            None => {
                cx.random(Random { distribution, key, whole: whole.clone(), region: region.clone(), dtype })
            }
        },
    )
}

/// The error of a dtype without such numbers.
pub(crate) fn no_float(dtype: DType) -> Error {
    Error::new(ErrorKind::DType, format!("random numbers of {dtype} are not drawn"))
        .with_fix("draw DType::F32 and cast, or use bernoulli for truth values")
}
