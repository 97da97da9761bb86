//! A tensor of one value.

use sharding_core::backend::{LocalArray, LocalArrays, backend_of};
use sharding_core::{
    DType, DeviceMapping, Error, ErrorKind, KernelCx, Place, Result, Scalar, Shape, Tensor, TensorLayout,
};

/// A tensor whose elements are all `value`, laid out by `mapping`: every device makes its own piece, nothing is sent.
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
/// for Unknown or a mapping that does not fit the shape, else as [`TensorLayout::new`].
pub fn full(
    shape: impl Into<Shape>,
    value: impl Into<Scalar>,
    dtype: DType,
    mapping: &DeviceMapping,
) -> Result<Tensor> {
    let shape = shape.into();
    filled(shape.clone(), value.into(), dtype, mapping)
        .map_err(|error| error.with_op("full").with_operands([format!("value: {dtype}{shape} {mapping}")]))
}

fn filled(shape: Shape, value: Scalar, dtype: DType, mapping: &DeviceMapping) -> Result<Tensor> {
    let layout = TensorLayout::new(dtype, shape, mapping.clone())?;
    if value.to_bytes(dtype).is_none() {
        return Err(Error::new(ErrorKind::DType, format!("the number {value} is no {dtype}"))
            .with_fix("give a number of the dtype"));
    }
    if let Some(axis) = mapping.places().iter().position(|place| *place == Place::Unknown) {
        let mesh = layout.mesh();
        return Err(Error::new(ErrorKind::Mapping, "no value can be placed Unknown")
            .with_mesh_axis(mesh.axis_name(axis), mesh.size(axis))
            .with_fix("place it Replicated"));
    }
    let kind = layout.mesh().device(0).map(|device| device.kind);
    let kind = kind.ok_or_else(|| Error::new(ErrorKind::Internal, "a mesh without devices"))?;
    let backend = backend_of(kind)?;
    let positions = backend.positions(layout.mesh())?;
    let identity = mapping.places().iter().find_map(|place| place.reduce_op()).map(|op| op.identity(dtype));
    let layouts = [layout];
    let [layout] = &layouts;
    // Pieces of one shape and value share one buffer where memory is shared.
    let mut made: Vec<(Scalar, LocalArray)> = Vec::new();
    let mut shards = LocalArrays::new();
    for position in positions.iter() {
        let device = layout.mesh().device(*position).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("there is no device {position} in {}", layout.mesh()))
        })?;
        let mut cx = KernelCx::new(backend.as_ref(), "full", device, *position, &[], &layouts);
        let own = match identity {
            Some(identity) if !cx.is_first_part(0)? => identity,
            _ => value,
        };
        let shape = cx.result_shape(0)?;
        let twin = made.iter().find(|(value, array)| {
            *value == own && *array.shape() == shape && backend.shares_memory(array.device(), device)
        });
        let shard = match twin {
            Some((_, array)) => array.clone(),
            None => {
                let array = cx.fill(own, dtype, &shape)?;
                made.push((own, array.clone()));
                array
            }
        };
        shards.push(shard);
    }
    Tensor::from_shards(layout.clone(), positions, shards)
}
