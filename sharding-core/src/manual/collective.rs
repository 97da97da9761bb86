//! What a meeting does: the members' values become one tensor over the devices of the group, and redistribution does the
//! rest, so that sums follow the same tree as outside of regions.

use super::call::{Call, Collective};
use super::grid::Group;
use crate::backend::{Backend, LocalArray, LocalArrays};
use crate::dispatch::Outermost;
use crate::placement::sharded;
use crate::redistribute::program;
use crate::tensor::{device_at, resolve};
use crate::{DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Result, Scope, Shape, Tensor, TensorLayout};
use smallvec::SmallVec;

use super::varies::Varies;

/// The members' values after the collective, in their order. All values are of one dtype, shape and placement.
pub(super) fn run(group: &Group, call: &Call, mut given: Vec<Tensor>, varies: Varies) -> Result<Vec<Tensor>> {
    let _outermost = Outermost::replace(call.name, call.at);
    let made = match &call.collective {
        Collective::Permute(pairs) => permute(group, call, &given, pairs, varies),
        collective => {
            let n = group.size;
            let (from, to, whole, own) = plan(collective, &call.shape, n)?;
            let source = TensorLayout::new(call.dtype, whole, on(group, from, &call.places)?)?;
            let target = on(group, to, &call.places)?;
            let shards = gather(group, &source, &mut given)?;
            let program = program(&source, &target)?;
            let shards = program.run(call.name, shards)?;
            let target = source.with_mapping(target)?;
            hand_out(group, &target, &shards, &given, &own, varies)
        }
    };
    made.map_err(|error| error.with_op(call.name))
}

/// Placement on the group's axes before and after, global shape, and the shape of each member's value after.
fn plan(collective: &Collective, shape: &Shape, n: usize) -> Result<(Place, Place, Shape, Shape)> {
    let times = |axis: usize| -> Result<Shape> {
        let extent = shape.extent(axis).checked_mul(n).ok_or_else(|| {
            Error::new(
                ErrorKind::Overflow,
                format!("{n} pieces of {shape} joined on axis {axis} are too large"),
            )
        })?;
        Ok(shape.with_extent(axis, extent))
    };
    let part = |axis: usize| shape.extent(axis) / n;
    Ok(match collective {
        Collective::Reduce(op) => (Place::Partial(*op), Place::Replicated, shape.clone(), shape.clone()),
        Collective::Gather(axis) => (sharded(*axis), Place::Replicated, times(*axis)?, times(*axis)?),
        Collective::Scatter(axis) => {
            (Place::PARTIAL, sharded(*axis), shape.clone(), shape.with_extent(*axis, part(*axis)))
        }
        Collective::Exchange { split, concat } => {
            let whole = times(*concat)?;
            let own = whole.with_extent(*split, part(*split));
            (sharded(*concat), sharded(*split), whole, own)
        }
        Collective::Permute(_) => (Place::Unknown, Place::Unknown, shape.clone(), shape.clone()),
    })
}

/// A mapping of the group's mesh: this placement on its own axes, the members' on the others.
fn on(group: &Group, place: Place, rest: &[Place]) -> Result<DeviceMapping> {
    let mut places: SmallVec<[Place; 4]> = SmallVec::from_elem(place, group.axes);
    // One device has a mesh axis of its own; the group's mesh has none for it.
    places.extend(rest.iter().copied().take(group.mesh.ndim() - group.axes));
    DeviceMapping::new(&group.mesh, places)
}

/// How many devices each member has.
fn devices_each(group: &Group) -> usize {
    group.mesh.num_devices() / group.size.max(1)
}

/// The shards of a tensor over the group's mesh, from the members' values. Where a backend without data lets some devices
/// stand for others, the others' shards are made here.
fn gather(group: &Group, layout: &TensorLayout, given: &mut [Tensor]) -> Result<LocalArrays> {
    let (backend, positions) = resolve(&group.mesh)?;
    let each = devices_each(group);
    let held: Vec<LocalArrays> = given.iter_mut().map(Tensor::take_shards).collect();
    let mut shards = LocalArrays::with_capacity(positions.len());
    for position in positions.iter() {
        let (place, inner) = (position / each, position % each);
        let own = group.places.binary_search(&place).ok();
        let found = own.and_then(|i| {
            let at = given.get(i)?.positions().iter().position(|held| *held == inner)?;
            held.get(i)?.get(at).cloned()
        });
        shards.push(match found {
            Some(shard) => shard,
            None => stand_in(&**backend, layout, *position)?,
        });
    }
    Ok(shards)
}

/// The shard of a device that others stand for.
fn stand_in(backend: &dyn Backend, layout: &TensorLayout, position: usize) -> Result<LocalArray> {
    let device = device_at(layout.mesh(), position)?;
    if device.process != Scope::current().process() {
        return Err(Error::new(ErrorKind::Process, format!("the shard of {device} is in another process")));
    }
    backend.alloc(device, layout.dtype(), &layout.local_shape(position))
}

/// The members' values from the shards of a tensor over the group's mesh; `like` are their values before.
fn hand_out(
    group: &Group,
    layout: &TensorLayout,
    shards: &LocalArrays,
    like: &[Tensor],
    shape: &Shape,
    varies: Varies,
) -> Result<Vec<Tensor>> {
    let (backend, positions) = resolve(&group.mesh)?;
    let each = devices_each(group);
    let mut made = Vec::with_capacity(like.len());
    for (place, before) in group.places.iter().zip(like) {
        let own = TensorLayout::new(layout.dtype(), shape, before.mapping().clone())?;
        let mut arrays = LocalArrays::with_capacity(before.positions().len());
        for inner in before.positions().iter() {
            let found = positions.binary_search(&(place * each + inner)).ok().and_then(|i| shards.get(i));
            arrays.push(match found {
                Some(shard) => shard.clone(),
                None => stand_in(&**backend, &own, *inner)?,
            });
        }
        made.push(Tensor::from_parts(own, before.positions().clone(), arrays, varies));
    }
    Ok(made)
}

/// Values move between two meshes: that of the senders and that of the receivers, in the same order.
fn permute(
    group: &Group,
    call: &Call,
    given: &[Tensor],
    pairs: &[(usize, usize)],
    varies: Varies,
) -> Result<Vec<Tensor>> {
    let each = devices_each(group);
    let (backend, _) = resolve(&group.mesh)?;
    let rest: SmallVec<[usize; 4]> = (group.axes..group.mesh.ndim()).collect();
    let of = |member: fn(&(usize, usize)) -> usize| -> Result<DeviceMesh> {
        let mut devices = Vec::with_capacity(pairs.len() * each);
        for pair in pairs {
            for inner in 0..each {
                devices.push(device_at(&group.mesh, member(pair) * each + inner)?);
            }
        }
        let joined = group.joined_name(&call.over);
        let mut sizes = vec![pairs.len()];
        let mut names = vec![joined.as_str()];
        sizes.extend(rest.iter().map(|axis| group.mesh.size(*axis)));
        names.extend(rest.iter().map(|axis| group.mesh.axis_name(*axis)));
        DeviceMesh::of_some(&devices, &sizes, &names)
    };
    let mut moved = None;
    if !pairs.is_empty() {
        let (from, to) = (of(|pair| pair.0)?, of(|pair| pair.1)?);
        let place = |mesh: &DeviceMesh| {
            let mut places: SmallVec<[Place; 4]> = SmallVec::from_elem(Place::Unknown, 1);
            places.extend(call.places.iter().copied().take(rest.len()));
            DeviceMapping::new(mesh, places)
        };
        let source = TensorLayout::new(call.dtype, &call.shape, place(&from)?)?;
        let mut shards = LocalArrays::new();
        for position in resolve(&from)?.1.iter() {
            let (pair, inner) = (position / each, position % each);
            let sender = pairs.get(pair).and_then(|pair| group.places.binary_search(&pair.0).ok());
            let found = sender.and_then(|i| {
                let tensor = given.get(i)?;
                tensor.shards().get(tensor.positions().iter().position(|held| *held == inner)?).cloned()
            });
            shards.push(match found {
                Some(shard) => shard,
                None => stand_in(&**backend, &source, *position)?,
            });
        }
        let shards = program(&source, &place(&to)?)?.run(call.name, shards)?;
        moved = Some((resolve(&to)?.1, shards));
    }
    let mut made = Vec::with_capacity(given.len());
    for (place, before) in group.places.iter().zip(given) {
        let received = pairs.iter().position(|pair| pair.1 == *place);
        let mut arrays = LocalArrays::with_capacity(before.positions().len());
        for inner in before.positions().iter() {
            let found = received.zip(moved.as_ref()).and_then(|(pair, (positions, shards))| {
                shards.get(positions.binary_search(&(pair * each + inner)).ok()?)
            });
            arrays.push(match (found, received) {
                (Some(shard), _) => shard.clone(),
                (None, Some(_)) => stand_in(&**backend, before.layout(), *inner)?,
                (None, None) => super::local::zeros(&**backend, call.name, before.layout(), *inner)?,
            });
        }
        made.push(Tensor::from_parts(before.layout().clone(), before.positions().clone(), arrays, varies));
    }
    Ok(made)
}
