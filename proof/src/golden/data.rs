//! Values for replays: whole tensors on the host, laid out as a case says, and compared with what comes back.

use sharding_core::backend::{LocalArrays, backend_of};
use sharding_core::conformance::host::{HostArray, Random, parts};
use sharding_core::op::{CaseOperand, Fill};
use sharding_core::{
    DType, Device, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, ReduceOp, Result, Shape, Tensor,
    TensorLayout,
};

/// What a tensor is, whatever its layout: one whole array for each coordinate along the mesh axes on which its devices
/// hold unrelated values (none, and so one array, for almost all tensors).
#[derive(Clone, Debug)]
pub(super) struct Wholes {
    unknown: Vec<usize>,
    arrays: Vec<HostArray>,
}

fn axes_where(places: &[Place], is: impl Fn(&Place) -> bool) -> Vec<usize> {
    places.iter().enumerate().filter(|(_, place)| is(place)).map(|(axis, _)| axis).collect()
}

fn unknown_axes(places: &[Place]) -> Vec<usize> {
    axes_where(places, |place| *place == Place::Unknown)
}

impl Wholes {
    /// Small integers of a kind, different for each seed and each coordinate of the Unknown axes.
    pub(super) fn new(layout: &TensorLayout, fill: Fill, seed: u64) -> Result<Self> {
        let unknown = unknown_axes(layout.places());
        let operand = CaseOperand::new(layout.dtype(), layout.shape()).with_fill(fill);
        let coordinates = layout.mesh().axis_size(&unknown)? as u64;
        let arrays =
            (0..coordinates).map(|u| HostArray::of_case(&operand, seed.wrapping_mul(64) + u)).collect();
        Ok(Self { unknown, arrays })
    }

    /// Arrays, one per coordinate along `unknown`.
    pub(super) fn of(unknown: Vec<usize>, arrays: Vec<HostArray>) -> Self {
        Self { unknown, arrays }
    }

    /// The mesh axes along which there is more than one array.
    pub(super) fn unknown(&self) -> &[usize] {
        &self.unknown
    }

    /// The array of the device at a position.
    pub(super) fn at(&self, mesh: &DeviceMesh, position: usize) -> Result<&HostArray> {
        let coordinate = mesh.device_coord(position, &self.unknown)?;
        self.arrays.get(coordinate).ok_or_else(|| Error::new(ErrorKind::Internal, "no such coordinate"))
    }

    /// A tensor of this value: pieces where it is Sharded, unequal parts of both signs where it is Partial.
    pub(super) fn place(&self, layout: &TensorLayout, seed: u64) -> Result<Tensor> {
        let partial = axes_where(layout.places(), |place| place.is_partial());
        let ways = layout.mesh().axis_size(&partial)?;
        let (op, mut random) = (reduce_op(layout), Random::new(seed));
        let split: Vec<Vec<HostArray>> =
            self.arrays.iter().map(|array| parts(array, op, ways, &mut random)).collect();
        self.place_parts(layout, &split)
    }

    /// A tensor of this value in these parts: for each array of it one for each coordinate along the Partial axes.
    pub(super) fn place_parts(&self, layout: &TensorLayout, split: &[Vec<HostArray>]) -> Result<Tensor> {
        let mesh = layout.mesh();
        let partial = axes_where(layout.places(), |place| place.is_partial());
        let backend = backend_of(kind_of(mesh)?)?;
        let positions = backend.positions(mesh)?;
        let mut shards = LocalArrays::new();
        for position in positions.iter().copied() {
            let unknown = mesh.device_coord(position, &self.unknown)?;
            let part = mesh.device_coord(position, &partial)?;
            let piece = split.get(unknown).and_then(|parts| parts.get(part));
            let (Some(piece), Some(device)) = (piece, mesh.device(position)) else {
                return Err(Error::new(ErrorKind::Internal, "a position beyond the mesh"));
            };
            shards.push(piece.cut(&layout.region(position)).put(backend.as_ref(), device)?);
        }
        Tensor::from_shards(layout.clone(), positions, shards)
    }

    /// What is wrong with a tensor that should have this value, or nothing.
    ///
    /// Every device is looked at: pieces must lie where the layout says, all copies must agree, and parts must combine
    /// to the whole.
    pub(super) fn difference(&self, tensor: &Tensor) -> Result<Option<String>> {
        let (layout, mesh) = (tensor.layout(), tensor.mesh());
        let unknown = unknown_axes(layout.places());
        if let Some(axis) = self.unknown.iter().find(|axis| !unknown.contains(axis)) {
            let name = mesh.axis_name(*axis);
            return Ok(Some(format!("{layout} claims a relation along '{name}', where there is none")));
        }
        let partial = axes_where(layout.places(), |place| place.is_partial());
        let op = reduce_op(layout);
        let backend = backend_of(kind_of(mesh)?)?;
        let read = |position: usize| -> Result<HostArray> {
            let at = tensor.positions().iter().position(|p| *p == position);
            match at.and_then(|at| tensor.shards().get(at)) {
                Some(shard) => HostArray::read(backend.as_ref(), shard),
                None => Err(Error::new(ErrorKind::Process, format!("no shard at position {position}"))),
            }
        };
        for position in tensor.positions().iter().copied() {
            if mesh.device_coord(position, &partial)? != 0 {
                continue;
            }
            let mut got = read(position)?;
            for other in mesh.group(position, &partial).into_iter().skip(1) {
                got.combine(op, &read(other)?);
            }
            let want = self.at(mesh, position)?.cut(&layout.region(position));
            if want.shape != got.shape {
                return Ok(Some(format!("device {position} holds {} instead of {}", got.shape, want.shape)));
            }
            if let Some(differs) = want.first_difference(&got) {
                return Ok(Some(format!(
                    "device {position} of {layout}: {} instead of {} at {:?} of its shard",
                    differs.got, differs.want, differs.index
                )));
            }
        }
        Ok(None)
    }
}

/// An array as a tensor on one device.
pub(super) fn on_one_device(array: &HostArray, device: Device) -> Result<Tensor> {
    let mapping = DeviceMapping::replicated(&DeviceMesh::single(device));
    let layout = TensorLayout::new(array.dtype, array.shape.clone(), mapping)?;
    Tensor::from_bytes(&array.to_bytes(), layout)
}

/// The elements of a tensor that lies on one device.
pub(super) fn read_one_device(tensor: &Tensor) -> Result<HostArray> {
    let shard = tensor.shards().first();
    let shard = shard.ok_or_else(|| Error::new(ErrorKind::Process, "a tensor without a shard"))?;
    HostArray::read(backend_of(shard.device().kind)?.as_ref(), shard)
}

/// A layout of `f32` elements.
pub(super) fn f32_layout(mesh: &DeviceMesh, shape: &Shape, places: &[Place]) -> Result<TensorLayout> {
    TensorLayout::new(DType::F32, shape, DeviceMapping::new(mesh, places)?)
}

/// How the parts combine; a mapping has one op at most.
fn reduce_op(layout: &TensorLayout) -> ReduceOp {
    layout.places().iter().find_map(|place| place.reduce_op()).unwrap_or_default()
}

fn kind_of(mesh: &DeviceMesh) -> Result<sharding_core::BackendKind> {
    let device = mesh.device(0).ok_or_else(|| Error::new(ErrorKind::Mesh, "a mesh without devices"))?;
    Ok(device.kind)
}
