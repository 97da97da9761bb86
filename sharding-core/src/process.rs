//! Data that a process brings itself: every device gets its own piece, and nobody holds the whole.

use crate::backend::{LocalArray, LocalArrays};
use crate::dispatch::guarded;
use crate::manual::Varies;
use crate::tensor::{check_host_data, device_at, host_room, resolve};
use crate::{Region, Result, Tensor, TensorLayout};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

impl Tensor {
    /// A tensor of this layout whose pieces `fill` brings: it is called once for every distinct slice that this
    /// process addresses, with the slice's index ranges per tensor axis and as many bytes (zeros) as it has, to be
    /// filled in native order, row-major. As JAX's `make_array_from_callback`.
    ///
    /// One buffer serves all slices in turn, so the process never holds more on the host than the largest of them.
    /// Devices with equal slices share one storage where memory is shared. Slices without elements are asked for
    /// too.
    ///
    /// ```no_run
    /// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, Region, Tensor, TensorLayout};
    ///
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"])?;
    /// let columns = DeviceMapping::new(&mesh, [Place::Replicated, Place::Sharded(1)])?;
    /// let mut asked = Vec::new();
    /// let x = Tensor::from_callback(TensorLayout::new(DType::F32, [2, 3], columns)?, |region: &Region, bytes| {
    ///     asked.push((region[1][0].clone(), bytes.len()));
    ///     Ok(())
    /// })?;
    /// assert_eq!(asked, [(0..2, 16), (2..3, 8)]);
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`](crate::ErrorKind::Mapping) for Partial and Unknown placements, what `fill` says (with the
    /// layout added), [`ErrorKind::Kernel`](crate::ErrorKind::Kernel) if it panics, else what the backend says.
    pub fn from_callback(
        layout: TensorLayout,
        mut fill: impl FnMut(&Region, &mut [u8]) -> Result<()>,
    ) -> Result<Self> {
        let value = [format!("value: {layout}")];
        check_host_data(&layout)
            .and_then(|()| {
                Self::from_pieces(layout, |region, bytes| {
                    guarded("the callback of from_callback", || fill(region, bytes))
                })
            })
            .map_err(|error| error.with_op("from_callback").with_operands(value))
    }

    /// [`Tensor::from_callback`] for a layout that is known to be whole or split, and a callback of this crate.
    pub(crate) fn from_pieces(
        layout: TensorLayout,
        mut fill: impl FnMut(&Region, &mut [u8]) -> Result<()>,
    ) -> Result<Self> {
        let (backend, positions) = resolve(layout.mesh())?;
        let mut places: FxHashMap<Region, usize> = FxHashMap::default();
        let mut slices: Vec<(Region, SmallVec<[usize; 4]>)> = Vec::new();
        for (i, position) in positions.iter().enumerate() {
            let region = layout.region(*position);
            let at = *places.entry(region.clone()).or_insert(slices.len());
            match slices.get_mut(at) {
                Some((_, holders)) => holders.push(i),
                None => slices.push((region, SmallVec::from_slice(&[i]))),
            }
        }
        let mut made: Vec<Option<LocalArray>> = vec![None; positions.len()];
        let mut bytes = Vec::new();
        for (region, holders) in &slices {
            let mut stored: SmallVec<[LocalArray; 1]> = SmallVec::new();
            for holder in holders {
                let Some(position) = positions.get(*holder) else { continue };
                let device = device_at(layout.mesh(), *position)?;
                // Replicas share one storage where memory is shared.
                let twin = stored.iter().find(|shard| backend.shares_memory(shard.device(), device));
                let shard = match twin {
                    Some(shard) => shard.clone(),
                    None => {
                        let mut shard =
                            backend.alloc(device, layout.dtype(), &layout.local_shape(*position))?;
                        if stored.is_empty() {
                            host_room(&mut bytes, shard.bytes())?;
                            fill(region, &mut bytes)?;
                        }
                        backend.write(&bytes, &mut shard)?;
                        stored.push(shard.clone());
                        shard
                    }
                };
                if let Some(slot) = made.get_mut(*holder) {
                    *slot = Some(shard);
                }
            }
        }
        let shards: LocalArrays = made.into_iter().flatten().collect();
        Ok(Self::from_parts(layout, positions, shards, Varies::NONE.here()))
    }
}
