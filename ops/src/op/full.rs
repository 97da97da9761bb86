//! A tensor of one value.

use crate::made::{Wanted, mapping_of};
use sharding_core::{DType, Error, ErrorKind, Result, Scalar, Shape, Target, Tensor};

/// A tensor whose elements are all `value`, laid out by `target`: every device makes its own piece, nothing is sent.
///
/// On a Partial axis the first device holds the value and the others what changes nothing, so the value counts once.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"])?;
/// let x = full([3, 2], 1.5, DType::F32, &DeviceMapping::new(&mesh, [Sharded(0), Partial(ReduceOp::Sum)])?)?;
/// assert_eq!(x.to_vec::<f32>()?, [1.5; 6]);
/// assert_eq!(x.shard_to_vec::<f32>(3)?, [0.0; 2]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`](crate::ErrorKind::DType) if the value is none of the dtype, [`ErrorKind::Mapping`](crate::ErrorKind::Mapping)
/// for Unknown or a mapping that does not fit the shape, else as [`TensorLayout::new`](crate::TensorLayout::new).
#[track_caller]
pub fn full(
    shape: impl Into<Shape>,
    value: impl Into<Scalar>,
    dtype: DType,
    target: &(impl Target + ?Sized),
) -> Result<Tensor> {
    filled("full", shape.into(), value.into(), dtype, target)
}

/// [`full`] under another name in errors.
#[track_caller]
pub(crate) fn filled(
    op: &'static str,
    shape: Shape,
    value: Scalar,
    dtype: DType,
    target: &(impl Target + ?Sized),
) -> Result<Tensor> {
    let mapping = mapping_of(op, dtype, &shape, target)?;
    let wanted = Wanted { op, dtype, shape, mapping: &mapping };
    if value.to_bytes(dtype).is_none() {
        return Err(wanted.located(
            Error::new(ErrorKind::DType, format!("the number {value} is no {dtype}"))
                .with_fix("give a number of the dtype"),
        ));
    }
    let identity = mapping.places().iter().find_map(|place| place.reduce_op()).map(|op| op.identity(dtype));
    wanted.make(
        |cx| {
            let own = match identity {
                Some(identity) if !cx.is_first_part(0)? => identity,
                _ => value,
            };
            Ok((own, cx.result_shape(0)?))
        },
        |cx, (value, shape)| cx.fill(*value, dtype, shape),
    )
}
