//! What each device of this process holds of a tensor.

use crate::backend::{LocalArray, backend_of};
use crate::manual::Varies;
use crate::tensor::{device_at, expect_dtype, read_shard, read_shard_as};
use crate::{DType, Device, Element, HostData, Region, Result, Shape, Sharding, Tensor};

/// What one device holds of a tensor.
#[derive(Clone, Debug)]
pub struct Shard<'a> {
    position: usize,
    device: Device,
    index: Region,
    replica_id: usize,
    data: &'a LocalArray,
    varies: Varies,
}

impl<'a> Shard<'a> {
    /// The row-major position of the device in the mesh.
    pub fn position(&self) -> usize {
        self.position
    }
    /// The device.
    pub fn device(&self) -> Device {
        self.device
    }
    /// The index ranges of the whole that it holds, per tensor axis. Along a Partial axis each device holds a part of
    /// their value, along an Unknown one whatever it has.
    pub fn index(&self) -> &Region {
        &self.index
    }
    /// How many devices before it, in mesh order and of all processes, hold the same index ranges.
    pub fn replica_id(&self) -> usize {
        self.replica_id
    }
    /// The local array.
    pub fn data(&self) -> &'a LocalArray {
        self.data
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }
    /// The local shape.
    pub fn shape(&self) -> &'a Shape {
        self.data.shape()
    }

    /// The elements, row-major.
    ///
    /// # Errors
    /// [`ErrorKind::DType`](crate::ErrorKind::DType) for another element type, else what the backend says.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        expect_dtype::<T>(self.dtype())?;
        self.varies.seen_by_host();
        read_shard_as(self.data)
    }

    /// The bytes of the elements of whatever dtype, row-major in native order.
    ///
    /// # Errors
    /// What the backend says.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.varies.seen_by_host();
        read_shard(self.data)
    }

    /// The elements where they lie, if that is host memory: nothing is copied. `None` elsewhere.
    ///
    /// # Errors
    /// What the backend says.
    pub fn host_view(&self) -> Result<Option<HostData<'a>>> {
        let Some(bytes) = backend_of(self.data.device().kind)?.peek(self.data)? else { return Ok(None) };
        self.varies.seen_by_host();
        let (meta, size) = (self.data.meta(), self.dtype().size());
        HostData::from_bytes(meta.dtype, [bytes.len() / size], bytes)?
            .with_strides(&meta.shape, &meta.strides, meta.offset)
            .map(Some)
    }
}

impl Tensor {
    /// What each device of this process holds, in mesh order. As JAX's `addressable_shards`.
    ///
    /// ```no_run
    /// use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, Tensor};
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"])?;
    /// let mapping = DeviceMapping::new(&mesh, [Place::Replicated, Place::Sharded(0)])?;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4_i64], [4], &mapping)?;
    /// for shard in x.addressable_shards() {
    ///     println!("{}: {:?}, replica {}", shard.device(), shard.index(), shard.replica_id());
    /// }
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    pub fn addressable_shards(&self) -> impl ExactSizeIterator<Item = Shard<'_>> {
        let layout = self.layout();
        let tiling = layout.mapping().tiling(layout.shape().len()).ok();
        self.positions().iter().zip(self.shards()).map(move |(position, data)| Shard {
            position: *position,
            device: device_at(layout.mesh(), *position).unwrap_or_else(|_| data.device()),
            index: layout.region(*position),
            // A layout fits its shape, so there is a tiling.
            replica_id: tiling.as_ref().map_or(0, |tiling| tiling.replica_id(layout.shape(), *position)),
            data,
            varies: self.varies(),
        })
    }

    /// Which index ranges each device of this process holds, in mesh order. No data is looked at.
    pub fn addressable_indices(&self) -> impl Iterator<Item = (Device, Region)> + '_ {
        let layout = self.layout();
        let held = |position: &usize| Some((layout.mesh().device(*position)?, layout.region(*position)));
        self.positions().iter().filter_map(held)
    }

    /// Bytes of the whole tensor, each element counted once.
    pub fn logical_payload_nbytes(&self) -> usize {
        self.layout().bytes()
    }

    /// Bytes of the elements that this process's devices hold, replicas counted; what they share in memory is counted
    /// as often as it is held.
    pub fn addressable_payload_nbytes(&self) -> usize {
        let (mesh, shards) = (self.mesh(), self.shards());
        // A backend without data may let a few devices stand for all; each element then lies once on every device along the
        // axes that do not split.
        if shards.len() < mesh.num_devices() && !mesh.is_multi_process() && !shards.is_empty() {
            let copies = self.layout().places().iter().enumerate();
            let copies =
                copies.filter(|(_, place)| place.tensor_axis().is_none()).map(|(axis, _)| mesh.size(axis));
            return copies.fold(self.layout().bytes(), usize::saturating_mul);
        }
        shards.iter().map(LocalArray::bytes).fold(0, usize::saturating_add)
    }
}
