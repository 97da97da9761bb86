//! Host arrays laid out over devices.

use super::HostData;
use crate::backend::{LocalArray, LocalArrays};
use crate::manual::Varies;
use crate::tensor::{check_host_data, device_at, host_room, resolve};
use crate::{
    DeviceMapping, Error, ErrorKind, Place, Region, Result, Scope, Target, Tensor, TensorLayout, making,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::panic::Location;

/// Whether a tensor may keep host memory that it is given a share of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostCopy {
    /// The tensor has memory of its own: the given one is free when the call returns.
    #[default]
    Always,
    /// Owned memory is kept, and so stays alive as long as the tensor, where the devices can use it as it is: on the cpu, if
    /// its elements are aligned. All shards are views of it. What cannot be used as it is, and what is only borrowed, is
    /// copied.
    WhereNeeded,
}

impl Tensor {
    /// A tensor from an array in host memory, laid out by `target`: every device gets its own piece only. As tinax's
    /// `place_host_array` and JAX's `device_put` of a NumPy array, but what only is borrowed is never aliased: a later
    /// write to the source does not change the tensor.
    ///
    /// On axes that `target` leaves Partial the first device holds the value and the others what changes nothing.
    ///
    /// ```no_run
    /// use sharding_core::{BackendKind, DeviceMesh, HostCopy, HostData, Tensor, set_mesh, spec};
    ///
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["x"])?;
    /// let data = HostData::owned(vec![1.0_f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// let x = set_mesh(&mesh, || Tensor::place_host_array(&data, &spec!["x"], HostCopy::WhereNeeded))?;
    /// assert_eq!(x.shard_to_vec::<f32>(1)?, [3.0, 4.0]);
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`TensorLayout::new`]; [`ErrorKind::Process`] if another process addresses some of the devices;
    /// [`ErrorKind::Mapping`] for an Unknown placement; else what the backend says.
    #[track_caller]
    pub fn place_host_array(
        data: &HostData<'_>,
        target: &(impl Target + ?Sized),
        copy: HostCopy,
    ) -> Result<Self> {
        let value = [format!("value: {}{}", data.dtype(), data.shape())];
        placed(data, target, copy, Location::caller())
            .map_err(|error| error.with_op("place_host_array").with_operands(value))
    }

    /// Lays out host data that is known to have the shape of the layout, or, where `locate` says so, parts of it: the
    /// region of the data for a region of the whole.
    pub(crate) fn from_host_pieces(
        layout: TensorLayout,
        data: &HostData<'_>,
        locate: impl Fn(&Region) -> Region,
    ) -> Result<Self> {
        Self::from_pieces(
            layout,
            |region| data.dense(&locate(region)),
            |region, bytes| data.copy(&locate(region), bytes),
        )
    }

    /// [`Tensor::from_host_pieces`] on the memory of the data itself; `None` where the devices cannot use it.
    pub(crate) fn from_host_views(
        layout: &TensorLayout,
        data: &HostData<'_>,
        locate: impl Fn(&Region) -> Region,
    ) -> Result<Option<Self>> {
        let Some(memory) = data.owner() else { return Ok(None) };
        let (backend, positions) = resolve(layout.mesh())?;
        // One storage for all devices that share memory; the shards are views of it.
        let mut wholes: SmallVec<[LocalArray; 1]> = SmallVec::new();
        let mut shards = LocalArrays::new();
        for position in positions.iter() {
            let device = device_at(layout.mesh(), *position)?;
            let Some(meta) = data.view(&locate(&layout.region(*position))) else { return Ok(None) };
            let whole = match wholes.iter().find(|whole| backend.shares_memory(whole.device(), device)) {
                Some(whole) => whole.clone(),
                None => {
                    let Some(whole) = backend.adopt(device, memory, data.meta())? else { return Ok(None) };
                    wholes.push(whole.clone());
                    whole
                }
            };
            shards.push(LocalArray::new(meta, whole.storage().clone()));
        }
        Ok(Some(Self::from_parts(layout.clone(), positions, shards, Varies::NONE.here())))
    }

    /// A tensor whose pieces are either host bytes as they lie, if `whole` has them, or written by `fill`.
    pub(crate) fn from_pieces<'a>(
        layout: TensorLayout,
        whole: impl Fn(&Region) -> Result<Option<&'a [u8]>>,
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
        let mut room = Vec::new();
        for (region, holders) in &slices {
            let as_it_lies = whole(region)?;
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
                        if stored.is_empty() && as_it_lies.is_none() {
                            host_room(&mut room, shard.bytes())?;
                            fill(region, &mut room)?;
                        }
                        backend.write(as_it_lies.unwrap_or(&room), &mut shard)?;
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

fn placed(
    data: &HostData<'_>,
    target: &(impl Target + ?Sized),
    copy: HostCopy,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let layout = TensorLayout::new(data.dtype(), data.shape(), target)?;
    check_addressable(&layout)?;
    making("place_host_array", at, &layout, || laid_out(data, &layout, copy))
}

fn laid_out(data: &HostData<'_>, layout: &TensorLayout, copy: HostCopy) -> Result<Tensor> {
    let partial = layout.places().iter().any(|place| place.is_partial());
    let held = if partial { without_partial(layout)? } else { layout.clone() };
    check_host_data(&held)?;
    let shared = match copy {
        HostCopy::WhereNeeded => Tensor::from_host_views(&held, data, Region::clone)?,
        HostCopy::Always => None,
    };
    let tensor = match shared {
        Some(tensor) => tensor,
        None => Tensor::from_host_pieces(held, data, Region::clone)?,
    };
    if partial { tensor.transfer_to(layout.mapping()) } else { Ok(tensor) }
}

/// The layout with Replicated where it is Partial.
fn without_partial(layout: &TensorLayout) -> Result<TensorLayout> {
    let places: SmallVec<[Place; 4]> = layout
        .places()
        .iter()
        .map(|place| if place.is_partial() { Place::Replicated } else { *place })
        .collect();
    let mapping = DeviceMapping::new(layout.mesh(), places)?;
    layout.with_mapping(mapping.with_memory_kind(layout.mapping().memory_kind()))
}

/// Whether this process addresses all devices: a whole array is here, and only here.
fn check_addressable(layout: &TensorLayout) -> Result<()> {
    let (mesh, process) = (layout.mesh(), Scope::current().process());
    let away = mesh.device(0).filter(|first| mesh.is_multi_process() || first.process != process);
    let Some(first) = away else { return Ok(()) };
    let foreign = mesh.devices().find(|device| device.process != process).unwrap_or(first);
    Err(Error::new(
        ErrorKind::Process,
        format!("{foreign} of {mesh} is not addressable by process {process}, which alone has the array"),
    )
    .with_fix("Tensor::from_process_local_data, with what each process has of the array"))
}
