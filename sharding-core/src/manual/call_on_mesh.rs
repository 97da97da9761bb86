//! `call_on_mesh`: a function of shards, device by device, that moves nothing.

use super::varies::Varies;
use crate::backend::LocalArrays;
use crate::dispatch::guarded;
use crate::tensor::{device_at, resolve};
use crate::{
    Device, DeviceMapping, DeviceMesh, Error, ErrorKind, GlobalDim, Place, Places, Result, Scope, Shape,
    Tensor, TensorLayout, global_dims,
};

const OP: &str = "call_on_mesh";

/// Begins a call of a function once per device of a mesh, or once per group of devices, on their shards as they are: nothing
/// moves, and devices take their turns on the thread of the caller. [`shard_map`](super::shard_map) is for functions that
/// communicate.
///
/// The function gets each argument's shard as a tensor on one device, and may borrow what it likes; values that differ by
/// device are [`PerShard`](super::PerShard). An argument on one device is given whole, brought to where it is needed. What
/// comes back has no known relation between devices: it is placed `Unknown`, unless
/// [`out_specs`](OnMesh::out_specs) says more. [`Tensor::rebind_mapping`] can say it later.
///
/// ```no_run
/// use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, manual::call_on_mesh};
/// # let x: sharding_core::Tensor = todo!();
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [4], ["tp"])?;
/// let rows = DeviceMapping::new(&mesh, [Place::Sharded(0)])?;
/// let [y] = call_on_mesh(&mesh).out_specs([rows]).per_device([&x], |_, [x]| Ok([x]))?;
/// # Ok::<(), sharding_core::Error>(())
/// ```
pub fn call_on_mesh(mesh: &DeviceMesh) -> OnMesh {
    OnMesh { mesh: mesh.clone(), outs: Vec::new() }
}

/// What [`call_on_mesh`] is told before it runs a function.
#[derive(Clone, Debug)]
#[must_use = "call `per_device` or `per_group` to run a function"]
pub struct OnMesh {
    mesh: DeviceMesh,
    outs: Vec<DeviceMapping>,
}

/// Where the function of [`call_on_mesh`] runs: a device, or a group of them.
#[derive(Clone, Debug)]
pub struct DeviceCx {
    mesh: DeviceMesh,
    positions: Vec<usize>,
}

impl DeviceCx {
    /// The row-major position of the device in the mesh; of a group, its first device's.
    pub fn position(&self) -> usize {
        self.positions.first().copied().unwrap_or(0)
    }
    /// The positions of the group, row-major over its mesh axes as given.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }
    /// The device; of a group, its first.
    pub fn device(&self) -> Device {
        self.mesh.device(self.position()).unwrap_or(Device::cpu())
    }
    /// The mesh of the device alone, for tensors that the function makes.
    pub fn mesh(&self) -> DeviceMesh {
        DeviceMesh::single(self.device())
    }
    /// The mesh of the whole call.
    pub fn whole_mesh(&self) -> &DeviceMesh {
        &self.mesh
    }
}

impl OnMesh {
    /// How each result lies: one mapping per result, or one for all.
    pub fn out_specs(mut self, outs: impl IntoIterator<Item = DeviceMapping>) -> Self {
        self.outs = outs.into_iter().collect();
        self
    }

    /// Runs the function once for every device that this process addresses.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] for an argument on another mesh of several devices, a result on another device, or an out_spec on
    /// another mesh; [`ErrorKind::Argument`] for another number of out_specs than one or `M`; [`ErrorKind::Mapping`] if shards
    /// are not those of their out_spec, or dtypes differ; [`ErrorKind::Process`] for an out_spec that splits where not all shards
    /// are in this process, [`ErrorKind::Mesh`] where they are and the backend holds those of some devices only (`sim`, of large
    /// meshes); [`ErrorKind::Kernel`] if the function panics; else what it says.
    pub fn per_device<const N: usize, const M: usize>(
        self,
        args: [&Tensor; N],
        mut function: impl FnMut(&DeviceCx, [Tensor; N]) -> Result<[Tensor; M]>,
    ) -> Result<[Tensor; M]> {
        self.run(&[], &args, |cx, lists| {
            let one =
                |mut list: Vec<Tensor>| list.pop().ok_or_else(|| internal("a device without its shard"));
            let shards: Vec<Tensor> = lists.into_iter().map(one).collect::<Result<_>>()?;
            Ok(function(cx, array(shards)?)?.into_iter().map(|result| vec![result]).collect())
        })
    }

    /// Runs the function once for every group of devices along these mesh axes: it gets a list of shards for each argument and
    /// gives a list for each result, in the order of [`DeviceCx::positions`].
    ///
    /// # Errors
    /// As [`OnMesh::per_device`]; [`ErrorKind::Axis`] for a mesh axis that is not there, [`ErrorKind::DuplicateAxis`] for one
    /// given twice; [`ErrorKind::Argument`] for a list of another length than the group has devices; [`ErrorKind::Process`] for a group of
    /// several processes.
    pub fn per_group<const N: usize, const M: usize>(
        self,
        axes: impl IntoIterator<Item = impl AsRef<str>>,
        args: [&Tensor; N],
        mut function: impl FnMut(&DeviceCx, [Vec<Tensor>; N]) -> Result<[Vec<Tensor>; M]>,
    ) -> Result<[Tensor; M]> {
        let mut numbers = Vec::new();
        for name in axes {
            let axis = self.mesh.axis_index(name.as_ref()).map_err(|error| error.with_op(OP))?;
            if numbers.contains(&axis) {
                return Err(Error::new(
                    ErrorKind::DuplicateAxis,
                    format!("the mesh axis '{}' is given twice", name.as_ref()),
                )
                .with_op(OP)
                .with_fix("name each mesh axis once"));
            }
            numbers.push(axis);
        }
        self.run(&numbers, &args, |cx, lists| Ok(function(cx, array(lists)?)?.into()))
    }

    fn run<const M: usize>(
        &self,
        axes: &[usize],
        args: &[&Tensor],
        mut function: impl FnMut(&DeviceCx, Vec<Vec<Tensor>>) -> Result<Vec<Vec<Tensor>>>,
    ) -> Result<[Tensor; M]> {
        let operands = || args.iter().enumerate().map(|(i, x)| format!("args[{i}]: {}", x.layout()));
        let mut made = || -> Result<[Tensor; M]> {
            let outs = self.outs(M)?;
            let (_, positions) = resolve(&self.mesh)?;
            let mut given: Vec<Vec<(usize, Tensor)>> = (0..M).map(|_| Vec::new()).collect();
            for position in positions.iter() {
                let group: Vec<usize> = self.mesh.group(*position, axes).to_vec();
                if group.first() != Some(position) {
                    continue;
                }
                if let Some(far) = group.iter().find(|position| positions.binary_search(position).is_err()) {
                    let device = device_at(&self.mesh, *far)?;
                    return Err(Error::new(
                        ErrorKind::Process,
                        format!("{device} has no shard in this process"),
                    )
                    .with_fix("name mesh axes whose groups stay in one process"));
                }
                let cx = DeviceCx { mesh: self.mesh.clone(), positions: group };
                let lists = args.iter().map(|x| self.shards(x, &cx)).collect::<Result<Vec<_>>>()?;
                let results = guarded("the function", || function(&cx, lists)).map_err(|error| {
                    error.with_detail(format!("on device {} of {}", cx.position(), self.mesh))
                })?;
                for (results, list) in results.into_iter().zip(&mut given) {
                    if results.len() != cx.positions.len() {
                        return Err(Error::new(
                            ErrorKind::Argument,
                            format!(
                                "{} results for a group of {} devices",
                                results.len(),
                                cx.positions.len()
                            ),
                        )
                        .with_fix("give one result per device of the group"));
                    }
                    list.extend(cx.positions.iter().copied().zip(results));
                }
            }
            let joined = given.into_iter().zip(outs).map(|(list, out)| self.joined(list, out));
            array(joined.collect::<Result<Vec<_>>>()?)
        };
        made().map_err(|error| error.with_op(OP).with_operands(operands()))
    }

    /// One mapping per result.
    fn outs(&self, results: usize) -> Result<Vec<DeviceMapping>> {
        if let Some(other) = self.outs.iter().find(|out| *out.mesh() != self.mesh) {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("an out_spec is on {}, the call on {}", other.mesh(), self.mesh),
            )
            .with_fix("DeviceMapping::new(&mesh, places) with the mesh of the call"));
        }
        match self.outs.as_slice() {
            [] => {
                let unknown = Places::from_elem(Place::Unknown, self.mesh.ndim());
                Ok(vec![DeviceMapping::new(&self.mesh, unknown)?; results])
            }
            [one] => Ok(vec![one.clone(); results]),
            outs if outs.len() == results => Ok(outs.to_vec()),
            outs => Err(Error::new(
                ErrorKind::Argument,
                format!("{} out_specs for {results} results", outs.len()),
            )
            .with_fix("give one mapping per result, or one for all")),
        }
    }

    /// An argument as the devices of a group have it.
    fn shards(&self, x: &Tensor, cx: &DeviceCx) -> Result<Vec<Tensor>> {
        let one = |position: &usize| -> Result<Tensor> {
            let alone = DeviceMapping::replicated(&DeviceMesh::single(device_at(&self.mesh, *position)?));
            if *x.mesh() == self.mesh {
                let held = x.positions().binary_search(position).ok().and_then(|i| x.shards().get(i));
                let shard = held.ok_or_else(|| internal("an argument without the shard of a device"))?;
                let layout = TensorLayout::new(x.dtype(), shard.shape(), alone)?;
                let positions = resolve(layout.mesh())?.1;
                return Ok(Tensor::from_parts(
                    layout,
                    positions,
                    [shard.clone()].into_iter().collect(),
                    x.varies(),
                ));
            }
            if x.mesh().num_devices() == 1 {
                return x.transfer_as(OP, &alone);
            }
            Err(Error::new(
                ErrorKind::Mesh,
                format!("the argument lies on {}, the call is on {}", x.mesh(), self.mesh),
            )
            .with_fix("x.transfer_to(&mapping) onto the mesh of the call"))
        };
        cx.positions.iter().map(one).collect()
    }

    fn joined(&self, mut list: Vec<(usize, Tensor)>, out: DeviceMapping) -> Result<Tensor> {
        list.sort_by_key(|(position, _)| *position);
        let Some((_, first)) = list.first() else { return Err(internal("a mesh without devices")) };
        let dtype = first.dtype();
        let mut shards = LocalArrays::with_capacity(list.len());
        let mut shapes = Vec::with_capacity(list.len());
        for (position, value) in &list {
            let device = device_at(&self.mesh, *position)?;
            let shard = match value.shards().as_slice() {
                [shard] if value.mesh().num_devices() == 1 && value.mesh().device(0) == Some(device) => shard,
                _ => {
                    return Err(Error::new(
                        ErrorKind::Mesh,
                        format!(
                            "device {position} gave {} on {}, not on {device} alone",
                            value.layout(),
                            value.mesh()
                        ),
                    )
                    .with_fix("y.transfer_to(&DeviceMapping::replicated(&cx.mesh())) in the function"));
                }
            };
            if value.dtype() != dtype {
                return Err(Error::new(
                    ErrorKind::Mapping,
                    format!("device {position} gave {}, the first gave {dtype}", value.dtype()),
                )
                .with_fix("cast the results to one dtype"));
            }
            shapes.push(shard.shape().clone());
            shards.push(shard.clone());
        }
        let shape = self.whole(&shapes, &out)?;
        let (_, positions) = resolve(&self.mesh)?;
        let varies = list.iter().fold(Varies::NONE, |all, (_, value)| all.union(value.varies()));
        Ok(Tensor::from_shards(TensorLayout::new(dtype, shape, out)?, positions, shards)?
            .varying(varies.here()))
    }

    /// The global shape of shards of these shapes: that of the first, unless the mapping splits it.
    fn whole(&self, shapes: &[Shape], out: &DeviceMapping) -> Result<Shape> {
        let first = shapes.first().cloned().unwrap_or_default();
        if out.places().iter().all(|place| place.tensor_axis().is_none()) {
            return Ok(first);
        }
        let (here, all) = (shapes.len(), self.mesh.num_devices());
        if here != all {
            let own = Scope::current().process();
            let (kind, text) = if self.mesh.devices().any(|device| device.process != own) {
                (ErrorKind::Process, format!("{here} of {all} shards are here"))
            } else {
                let device = device_at(&self.mesh, 0)?;
                let text = format!(
                    "of the {all} devices of a mesh this large the {} backend holds {here}",
                    device.kind
                );
                (ErrorKind::Mesh, text)
            };
            return Err(Error::new(kind, format!("{text}: the size of the whole is not known")).with_fix(
                "leave out_specs away, and y.rebind_mapping(&mapping, shape), which says the size",
            ));
        }
        let size = |(dim, own): (GlobalDim, &usize)| match dim {
            GlobalDim::Known(size) => size,
            GlobalDim::PerShard { global, .. } => global.unwrap_or(*own),
        };
        Ok(global_dims(shapes, out)?.into_iter().zip(first.iter()).map(size).collect())
    }
}

fn internal(message: &str) -> Error {
    Error::new(ErrorKind::Internal, message)
}

fn array<T, const N: usize>(values: Vec<T>) -> Result<[T; N]> {
    let n = values.len();
    <[T; N]>::try_from(values).map_err(|_| internal(&format!("{n} values, not {N}")))
}
