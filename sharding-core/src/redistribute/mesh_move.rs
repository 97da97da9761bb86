//! Moves between meshes.

use super::Program;
use super::overlap::{common, total};
use super::program::{is_known, unknown};
use crate::backend::StepKind;
use crate::placement::sharded;
use crate::plan::CostModel;
use crate::sharding::Sharding;
use crate::{DeviceMapping, Error, ErrorKind, Place, Places, Result, TensorLayout};

/// Up to so many devices a move is priced by what every one of them lacks; beyond, see [`of_many`].
const MAX_DEVICES: usize = 1 << 16;

/// Completes a program between meshes of different shapes: parts are reduced on the source's mesh, then every device
/// gets its ranges.
pub(super) fn between(program: &mut Program, cost: &dyn CostModel) -> Result<()> {
    let (source, target) = (program.source.clone(), program.target.clone());
    for layout in [&source, &target] {
        if let Some(axis) = layout.places().iter().position(|place| !is_known(*place)) {
            return Err(unknown(&source, &target, axis, layout.mesh()));
        }
    }
    let parts =
        |layout: &TensorLayout, axis: usize, place: Place| place.is_partial() && layout.mesh().size(axis) > 1;
    if let Some(axis) =
        target.places().iter().enumerate().position(|(axis, place)| parts(&target, axis, *place))
    {
        let from = if source.mesh().num_devices() == 1 { "one device" } else { "a mesh of another shape" };
        return Err(Error::new(
            ErrorKind::Sharding,
            format!("a value on {from} cannot be placed {} on {}", target.mapping(), target.mesh()),
        )
        .with_mesh_axis(target.mesh().axis_name(axis), target.mesh().size(axis))
        .with_operands([format!("x: {source}")])
        .with_fix("transfer it to Replicated on that mesh first, then to Partial there"));
    }
    let partial: Vec<usize> = (0..source.mesh().ndim())
        .filter(|axis| parts(&source, *axis, source.mapping().place(*axis)))
        .collect();
    if partial.is_empty() {
        program.push_move(&source, &target, received(&source, &target), cost);
        return Ok(());
    }
    // Combined in whole, or each device a piece along some tensor axis: half the bytes, and a move needs no whole.
    let options = (0..source.shape().len()).map(sharded).chain([Place::Replicated]).filter_map(|place| {
        let mut places = Places::from_slice(source.places());
        for axis in &partial {
            if let Some(slot) = places.get_mut(*axis) {
                *slot = place;
            }
        }
        let mapping = DeviceMapping::new(source.mesh(), places).ok()?;
        let reduced = source.with_mapping(mapping.with_memory_kind(source.mapping().memory_kind())).ok()?;
        Some(Program::search(&source, &reduced, cost).map(|mut steps| {
            steps.push_move(&reduced, &target, received(&reduced, &target), cost);
            steps.cost = steps.steps.iter().map(|step| step.cost).sum();
            steps
        }))
    });
    let mut best: Result<Program> =
        Err(Error::new(ErrorKind::Internal, format!("{} has no reduced form", source.mapping())));
    for option in options {
        let better = match (&best, &option) {
            (Ok(best), Ok(option)) => option.cost.total_cmp(&best.cost).is_lt(),
            (Err(_), _) => true,
            (Ok(_), Err(_)) => false,
        };
        if better {
            best = option;
        }
    }
    program.steps = best?.steps;
    debug_assert!(program.steps.last().is_some_and(|step| step.kind == StepKind::Move));
    Ok(())
}

/// Whether a move hands over shards as they are, from each position to the same one: all that can be done with a part of a
/// sum, or with what nobody knows. Else a device that has some of its ranges already, at whatever position, keeps them.
pub(crate) fn whole_shards(source: &TensorLayout, target: &TensorLayout) -> bool {
    let opaque = |place: &Place| place.is_partial() || !is_known(*place);
    source.mesh().shape() == target.mesh().shape()
        && source.places() == target.places()
        && source.places().iter().any(opaque)
}

/// The most bytes that one device of the target's mesh receives from others; of a mesh of more than [`MAX_DEVICES`] at most so
/// many, as [`of_many`] says.
pub(super) fn received(source: &TensorLayout, target: &TensorLayout) -> f64 {
    let many = target.mesh().num_devices() > MAX_DEVICES;
    let elements = if many { of_many(source, target) } else { of_few(source, target) };
    elements as f64 * target.dtype().size() as f64
}

/// The most elements that one of many devices receives, without a look at each. Exact where all devices of the target are in the
/// source's mesh and the source is Replicated, or both meshes have the same devices and lie alike there or the target is
/// Replicated (also for other orders of devices); and where the first device of the target, which has the largest piece of a
/// balanced split, has nothing. Else what a device already has counts as received.
fn of_many(source: &TensorLayout, target: &TensorLayout) -> usize {
    let (from, to) = (source.mesh(), target.mesh());
    let largest = target.largest_shard_bytes() / target.dtype().size();
    if whole_shards(source, target) {
        return if from.same_devices(to) { 0 } else { largest };
    }
    let whole = |layout: &TensorLayout| {
        let mut places = layout.places().iter().enumerate();
        places.all(|(axis, place)| *place == Place::Replicated || layout.mesh().size(axis) == 1)
    };
    let alike = || {
        let tiling = |layout: &TensorLayout| layout.mapping().tiling(layout.shape().len());
        matches!((tiling(source), tiling(target)), (Ok(a), Ok(b)) if a.same(&b))
    };
    if from.same_devices(to) && alike() {
        return 0;
    }
    // The devices of a list are looked up one by one: only where the answer depends on it.
    let known = whole(source) || whole(target);
    match known && from.has_all_of(to) {
        false => largest,
        true if whole(source) => 0,
        true => largest - source.smallest_shard_elements(),
    }
}

/// The most elements that one of few devices receives.
fn of_few(source: &TensorLayout, target: &TensorLayout) -> usize {
    let (from, to) = (source.mesh(), target.mesh());
    let positions = || 0..to.num_devices();
    let elements = |position: usize| target.local_shape(position).elements();
    // In balanced splits the first device has the most.
    let custom = target.places().iter().any(|place| matches!(place, Place::Custom(_)));
    let largest = if custom { positions().map(elements).max().unwrap_or(0) } else { elements(0) };
    let whole_shards = whole_shards(source, target);
    let one = |position: usize| {
        let device = to.device(position);
        if whole_shards {
            // Nothing for a device that has the same position in both.
            return if from.device(position) == device { 0 } else { elements(position) };
        }
        let Some(own) = device.and_then(|device| from.position_of(device)) else { return elements(position) };
        let (old, new) = (source.region(own), target.region(position));
        let gets: usize = new.iter().map(|ranges| total(ranges)).product();
        gets - old.iter().zip(&new).map(|(old, new)| common(old, new)).product::<usize>()
    };
    let mut most = 0;
    for position in positions() {
        most = most.max(one(position));
        if most == largest {
            break;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::host::Random;
    use crate::placement::Ragged;
    use crate::{BackendKind, DType, Device, DeviceMesh, ReduceOp, Region};
    use std::collections::HashSet;

    #[test]
    fn a_device_does_not_receive_what_it_has() {
        let check = |source: (&DeviceMesh, &[Place]), target: (&DeviceMesh, &[Place]), want: usize| {
            let lay = |(mesh, places): (&DeviceMesh, &[Place])| {
                TensorLayout::new(DType::Bool, [10, 4], DeviceMapping::new(mesh, places).unwrap()).unwrap()
            };
            assert_eq!(received(&lay(source), &lay(target)), want as f64, "{source:?} to {target:?}");
        };
        let mesh =
            |sizes: &[usize], names: &[&str]| DeviceMesh::simulated(BackendKind::CPU, sizes, names).unwrap();
        let (line, grid, other) = (mesh(&[4], &["x"]), mesh(&[2, 2], &["a", "b"]), mesh(&[4], &["y"]));
        let one = DeviceMesh::single(Device::cpu());
        let apart = DeviceMesh::single(Device::new(BackendKind::CUDA, 0));
        let (r, rows, columns) = (Place::Replicated, Place::Sharded(0), Place::Sharded(1));
        check((&one, &[r]), (&line, &[rows]), 3 * 4);
        check((&apart, &[r]), (&line, &[rows]), 3 * 4);
        check((&line, &[rows]), (&one, &[r]), 7 * 4);
        check((&line, &[rows]), (&apart, &[r]), 10 * 4);
        check((&line, &[rows]), (&other, &[rows]), 0);
        check((&line, &[rows]), (&grid, &[rows, rows]), 0);
        check((&line, &[rows]), (&grid, &[rows, r]), 3 * 4);
        check((&line, &[r]), (&grid, &[columns, rows]), 0);
    }

    /// The elements of a region, by their indices.
    fn elements(region: &Region) -> HashSet<Vec<usize>> {
        region.iter().fold(HashSet::from([Vec::new()]), |starts, ranges| {
            let indices = || ranges.iter().flat_map(Clone::clone);
            starts.iter().flat_map(|start| indices().map(|i| [&start[..], &[i]].concat())).collect()
        })
    }

    /// The most that a device of the target lacks, whatever its position in either mesh.
    fn lacked(source: &TensorLayout, target: &TensorLayout) -> usize {
        let lacks = |position: usize| {
            let device = target.mesh().device(position).unwrap();
            let own = source.mesh().position_of(device);
            let has = own.map_or_else(HashSet::new, |own| elements(&source.region(own)));
            elements(&target.region(position)).difference(&has).count()
        };
        (0..target.mesh().num_devices()).map(lacks).max().unwrap()
    }

    /// A mesh of some of six devices in any order.
    fn any_mesh(random: &mut Random) -> DeviceMesh {
        let mut devices: Vec<Device> = (0..6).map(|slot| Device::cpu().with_slot(slot)).collect();
        for i in 0..devices.len() {
            let other = i + random.below(devices.len() - i);
            devices.swap(i, other);
        }
        let shapes: [&[usize]; 6] = [&[2, 2], &[2, 2], &[4], &[2, 3], &[3, 1], &[6]];
        let shape = shapes[random.below(shapes.len())];
        DeviceMesh::new(&devices[..shape.iter().product()], shape, &["x", "y"][..shape.len()]).unwrap()
    }

    fn any_layout(random: &mut Random, extents: &[usize]) -> TensorLayout {
        let mesh = any_mesh(random);
        loop {
            let places: Vec<Place> = (0..mesh.ndim())
                .map(|axis| match random.below(4) {
                    0 => {
                        let mut sizes = vec![0; mesh.size(axis)];
                        (0..extents[0]).for_each(|_| sizes[random.below(mesh.size(axis))] += 1);
                        Ragged::place(0, sizes)
                    }
                    1 => Place::Replicated,
                    _ => sharded(random.below(2)),
                })
                .collect();
            // A custom placement has its tensor axis for itself.
            if let Ok(mapping) = DeviceMapping::new(&mesh, places)
                && let Ok(layout) = TensorLayout::new(DType::Bool, extents, mapping)
            {
                return layout;
            }
        }
    }

    #[test]
    fn what_is_received_is_what_a_device_lacks_whatever_the_order_of_devices() {
        let mut random = Random::new(11);
        for _ in 0..3000 {
            let extents = [random.below(8), random.below(8)];
            let (source, target) = (any_layout(&mut random, &extents), any_layout(&mut random, &extents));
            assert_eq!(received(&source, &target), lacked(&source, &target) as f64, "{source} to {target}");
            let mesh = any_mesh(&mut random);
            if let Ok(mapping) = DeviceMapping::new(&mesh, source.places()) {
                let Ok(target) = source.with_mapping(mapping) else { continue };
                assert_eq!(
                    received(&source, &target),
                    lacked(&source, &target) as f64,
                    "{source} to {target}"
                );
            }
        }
    }

    /// What is said of many devices without a look at each is never less than what one lacks, and just that where it is said to
    /// be exact.
    #[test]
    fn many_devices_are_priced_without_a_look_at_each() {
        let mut random = Random::new(12);
        let whole = |layout: &TensorLayout| {
            let mesh = layout.mesh();
            let mut places = layout.places().iter().enumerate();
            places.all(|(axis, place)| *place == Place::Replicated || mesh.size(axis) == 1)
        };
        let (mut exact, mut above) = (0, 0);
        for _ in 0..6000 {
            let extents = [random.below(8), random.below(8)];
            let (source, target) = (any_layout(&mut random, &extents), any_layout(&mut random, &extents));
            let (want, got) = (lacked(&source, &target), of_many(&source, &target));
            assert!(got >= want, "{source} to {target}: {got} of {want}");
            let devices = |layout: &TensorLayout| layout.mesh().devices().collect::<HashSet<_>>();
            let (from, to) = (devices(&source), devices(&target));
            if (whole(&source) && from.is_superset(&to)) || (whole(&target) && from == to) {
                assert_eq!(got, want, "{source} to {target}");
                exact += 1;
            }
            above += usize::from(got > want);
        }
        assert!(exact > 300 && above > 300, "{exact} exact, {above} above");
    }

    #[test]
    fn a_move_between_meshes_of_a_million_devices_costs_what_is_lacked() {
        let mesh =
            |sizes: &[usize], names: &[&str]| DeviceMesh::simulated(BackendKind::SIM, sizes, names).unwrap();
        let (grid, line) = (mesh(&[1 << 10, 1 << 10], &["a", "b"]), mesh(&[1 << 20], &["x"]));
        let lay = |mesh: &DeviceMesh, places: &[Place]| {
            let mapping = DeviceMapping::new(mesh, places).unwrap();
            TensorLayout::new(DType::F32, [1 << 21, 3], mapping).unwrap()
        };
        let (r, rows) = (Place::Replicated, Place::Sharded(0));
        let all = 3.0 * 4.0 * f64::from(1 << 21);
        assert_eq!(received(&lay(&grid, &[r, r]), &lay(&line, &[r])), 0.0);
        assert_eq!(received(&lay(&grid, &[r, r]), &lay(&line, &[rows])), 0.0);
        assert_eq!(received(&lay(&grid, &[rows, rows]), &lay(&line, &[rows])), 0.0);
        assert_eq!(received(&lay(&line, &[rows]), &lay(&grid, &[r, r])), all - 2.0 * 3.0 * 4.0);
        // Two rows each before and after, but others.
        assert_eq!(received(&lay(&grid, &[rows, r]), &lay(&line, &[rows])), 2.0 * 3.0 * 4.0);
        // Elsewhere nobody has anything.
        let first = Device::new(BackendKind::SIM, 7);
        let devices: Vec<Device> = (0..1 << 17).map(|slot| first.with_slot(slot)).collect();
        let elsewhere = DeviceMesh::new(&devices, [1 << 17], ["y"]).unwrap();
        assert_eq!(received(&lay(&line, &[r]), &lay(&elsewhere, &[r])), all);
        // Some of the devices have all.
        let some = DeviceMesh::simulated(BackendKind::SIM, [1 << 17], ["y"]).unwrap();
        assert_eq!(received(&lay(&line, &[r]), &lay(&some, &[r])), 0.0);
    }

    #[test]
    fn a_part_of_a_sum_goes_to_the_device_at_its_position() {
        let devices = [0, 1, 2, 3].map(|slot| Device::cpu().with_slot(slot));
        let turned: Vec<Device> = devices.iter().rev().copied().collect();
        let on = |devices: &[Device], place: Place| {
            let mesh = DeviceMesh::new(devices, [4], ["x"]).unwrap();
            TensorLayout::new(DType::Bool, [8], DeviceMapping::new(&mesh, [place]).unwrap()).unwrap()
        };
        for (place, want) in
            [(Place::Replicated, 0.0), (Place::Sharded(0), 2.0), (Place::Partial(ReduceOp::Sum), 8.0)]
        {
            assert_eq!(received(&on(&devices, place), &on(&devices, place)), 0.0, "{place}");
            assert_eq!(received(&on(&devices, place), &on(&turned, place)), want, "{place}");
        }
    }
}
