//! Tensors of arrays that lie on one device each.

use crate::backend::LocalArrays;
use crate::tensor::{device_at, resolve};
use crate::{Error, ErrorKind, Result, Shape, Target, Tensor, TensorLayout, making};
use std::panic::Location;

impl Tensor {
    /// A tensor whose shards are `arrays`: one on each device that this process addresses, in any order, each on a mesh of
    /// that device alone. Nothing is copied, and replicas are not compared. As JAX's
    /// `make_array_from_single_device_arrays`.
    ///
    /// ```no_run
    /// use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, Tensor};
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["x"])?;
    /// let piece = |device, values: [f32; 2]| {
    ///     Tensor::from_slice(&values, [2], &DeviceMapping::replicated(&DeviceMesh::single(device)))
    /// };
    /// let pieces = mesh.devices().map(|device| piece(device, [1.0, 2.0])).collect::<Result<Vec<_>, _>>()?;
    /// let x = Tensor::from_single_device_arrays([4], &DeviceMapping::new(&mesh, [Place::Sharded(0)])?, &pieces)?;
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`TensorLayout::new`]; [`ErrorKind::Mesh`] if an array does not lie on one device, there is not one for each
    /// device, two are on one device, or one is on a device of somebody else; [`ErrorKind::DType`] if they are not of one
    /// dtype; [`ErrorKind::Shape`] if one has not the shape of its shard. Placements that say nothing of shapes (Unknown)
    /// take any.
    #[track_caller]
    pub fn from_single_device_arrays(
        shape: impl Into<Shape>,
        target: &(impl Target + ?Sized),
        arrays: &[Tensor],
    ) -> Result<Self> {
        let operands = arrays
            .iter()
            .enumerate()
            .map(|(i, array)| format!("arrays[{i}]: {} on {}", array.layout().meta(), array.mesh()));
        assembled(shape.into(), target, arrays, Location::caller()).map_err(|error| {
            error.with_op("from_single_device_arrays").with_operands(operands.collect::<Vec<_>>())
        })
    }
}

fn assembled(
    shape: Shape,
    target: &(impl Target + ?Sized),
    arrays: &[Tensor],
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let Some(dtype) = arrays.first().map(Tensor::dtype) else {
        return Err(Error::new(ErrorKind::Mesh, "there is no array, and so neither a dtype nor a device")
            .with_fix("give one array for each addressable device"));
    };
    let layout = TensorLayout::new(dtype, shape, target)?;
    let mesh = layout.mesh();
    let (_, positions) = resolve(mesh)?;
    let refuse = |what: String, fix: &str| Err(Error::new(ErrorKind::Mesh, what).with_fix(fix));
    if arrays.len() != positions.len() {
        return refuse(
            format!("{} arrays for the {} addressable devices of {mesh}", arrays.len(), positions.len()),
            "give one array for each addressable device",
        );
    }
    let mut placed: Vec<Option<&Tensor>> = vec![None; positions.len()];
    for (i, array) in arrays.iter().enumerate() {
        if array.mesh().num_devices() != 1 {
            return refuse(
                format!("arrays[{i}] lies on {}, not on one device", array.mesh()),
                "DeviceMapping::replicated(&DeviceMesh::single(device)) places an array on one device",
            );
        }
        let device = device_at(array.mesh(), 0)?;
        let slot = mesh.position_of(device).and_then(|position| positions.binary_search(&position).ok());
        match slot.and_then(|slot| placed.get_mut(slot)) {
            None => {
                return refuse(
                    format!("arrays[{i}] lies on {device}, which is no addressable device of {mesh}"),
                    "place it on a device of the mesh",
                );
            }
            Some(Some(_)) => {
                return refuse(
                    format!("arrays[{i}] lies on {device}, as an array before it does"),
                    "give one array for each addressable device",
                );
            }
            Some(free) => *free = Some(array),
        }
        if array.dtype() != dtype {
            return Err(Error::new(
                ErrorKind::DType,
                format!("arrays[{i}] is {}, arrays[0] is {dtype}", array.dtype()),
            )
            .with_fix("cast the arrays to one dtype"));
        }
    }
    let unknown = layout.places().contains(&crate::Place::Unknown);
    let mut shards = LocalArrays::new();
    for (position, array) in positions.iter().zip(placed) {
        let shard = array.and_then(|array| array.shards().first());
        let shard = shard.ok_or_else(|| Error::new(ErrorKind::Internal, "a device without an array"))?;
        let want = layout.local_shape(*position);
        if !unknown && *shard.shape() != want {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "the shard of {layout} at device {position} has the shape {want}, its array {}",
                    shard.shape()
                ),
            )
            .with_fix("give every device the array that the sharding says"));
        }
        shards.push(shard.clone());
    }
    making("from_single_device_arrays", at, &layout, || {
        Tensor::from_shards(layout.clone(), positions, shards)
    })
}
