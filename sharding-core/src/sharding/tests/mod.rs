//! What must hold for every kind of sharding. A new kind adds itself to [`any_sharding`]; `PmapSharding` takes one shape only
//! and is in `pmap`.

mod between;
mod convert;
mod gspmd;
mod mapping;
mod named;
mod pmap;
mod positional;
mod property;
mod speed;

use super::*;
use crate::placement::{Interleaved, Ragged};
use crate::{
    AbstractMesh, AxisType, BackendKind, DeviceMapping, ErrorKind, PartitionSpec, Place, ReduceOp, Region,
    SpecEntry,
};
use proptest::prelude::*;

/// Devices that the meshes of these tests have.
const DEVICES: u32 = 12;

fn mesh(shape: &[usize], names: &[&str]) -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, shape, names).unwrap()
}
fn grid() -> DeviceMesh {
    mesh(&[4, 2], &["x", "y"])
}
fn explicit(mesh: &DeviceMesh) -> DeviceMesh {
    mesh.with_axis_types(vec![AxisType::Explicit; mesh.ndim()]).unwrap()
}

/// A mesh of the same twelve devices in some shape, of explicit axes `a`, `b`, .., some of size 1.
fn any_mesh() -> impl Strategy<Value = DeviceMesh> {
    let factors =
        (Just(vec![2, 2, 3, 1]).prop_shuffle(), proptest::array::uniform4(any::<bool>()), any::<bool>());
    factors.prop_map(|(factors, merged, reversed)| {
        let mut shape: Vec<usize> = Vec::new();
        for (factor, merged) in factors.into_iter().zip(merged) {
            match shape.last_mut() {
                Some(last) if merged => *last *= factor,
                _ => shape.push(factor),
            }
        }
        let mut devices: Vec<Device> = (0..DEVICES).map(|slot| Device::cpu().with_slot(slot)).collect();
        if reversed {
            devices.reverse();
        }
        explicit(&DeviceMesh::new(&devices, &shape, &["a", "b", "c", "d"][..shape.len()]).unwrap())
    })
}

/// A sharding by name for tensors of at most three axes, some mesh axes unreduced if `unreduced`.
fn any_named(unreduced: bool) -> impl Strategy<Value = NamedSharding> {
    any_mesh().prop_flat_map(move |mesh| {
        let names: Vec<String> = mesh.axis_names().map(str::to_owned).collect();
        // To each mesh axis: no part, a tensor axis, or (3) unreduced, (4) reduced.
        let roles = proptest::collection::vec(0..if unreduced { 6_usize } else { 4 }, names.len());
        let padding = 0..2_usize;
        (Just(mesh), Just(names).prop_shuffle(), roles, padding).prop_map(|(mesh, names, roles, padding)| {
            let of = |role: usize| {
                names.iter().zip(&roles).filter(move |(_, r)| **r == role).map(|(name, _)| name.as_str())
            };
            let last = roles.iter().filter(|role| **role < 3).max().map_or(0, |role| role + 1);
            let entries = (0..(last + padding).min(3)).map(|axis| SpecEntry::several(of(axis)));
            let spec = PartitionSpec::new(entries);
            let spec = spec.with_unreduced(of(4)).unwrap().with_reduced(of(5)).unwrap();
            NamedSharding::new(&mesh, spec).unwrap()
        })
    })
}

/// A mapping for tensors of three axes, with custom placements and Partial ones if `all`.
fn any_mapping(all: bool) -> impl Strategy<Value = DeviceMapping> {
    any_mesh().prop_flat_map(move |mesh| {
        let ways = mesh.size(0);
        let plain = prop_oneof![Just(Place::Replicated), (0_u8..3).prop_map(Place::Sharded)];
        let place = if all {
            prop_oneof![
                4 => plain,
                1 => Just(Place::PARTIAL),
                1 => Just(Place::Partial(ReduceOp::Max)),
                1 => Just(Place::Unknown),
                1 => Just(Interleaved::place(2, [1, 1])),
                1 => Just(Ragged::place(1, (0..ways).collect::<Vec<_>>())),
            ]
            .boxed()
        } else {
            plain.boxed()
        };
        let places = proptest::collection::vec(place, mesh.ndim());
        (Just(mesh), places).prop_filter_map("placements that fit each other", |(mesh, places)| {
            DeviceMapping::new(&mesh, places).ok()
        })
    })
}

/// Devices in some order, and four factors of their number in some order.
fn any_factors() -> impl Strategy<Value = (Vec<Device>, Vec<usize>)> {
    let devices: Vec<Device> = (0..DEVICES).map(|slot| Device::cpu().with_slot(slot)).collect();
    (prop_oneof![Just(devices.clone()), Just(devices).prop_shuffle()], Just(vec![2, 2, 3, 1]).prop_shuffle())
}

/// An array of device sets for tensors of three axes, after all three operations.
fn any_positional() -> impl Strategy<Value = PositionalSharding> {
    let order = Just(vec![0_isize, -3, 2, -1]).prop_shuffle();
    let (dropped, kept) = (0_isize..4, proptest::sample::subsequence(vec![0_isize, 1, -1], 0..3));
    (any_factors(), order, dropped, kept).prop_map(|((devices, factors), order, dropped, kept)| {
        let array = PositionalSharding::new(&devices, [devices.len()]).unwrap();
        let extents: Vec<isize> = factors.iter().map(|factor| *factor as isize).collect();
        let array = array.reshape(&extents).unwrap().transpose(&order).unwrap();
        array.replicate(Some(&[dropped]), false).unwrap().replicate(Some(&kept), true).unwrap()
    })
}

/// An HLO-style sharding of tensors of three axes, in which every device holds elements.
fn any_gspmd() -> impl Strategy<Value = GspmdSharding> {
    let parts =
        (any_factors(), Just(vec![0_usize, 1, 2, 3]).prop_shuffle(), Just(vec![2, 2, 3, 1]).prop_shuffle());
    let numbers = Just((0..DEVICES as usize).collect::<Vec<_>>()).prop_shuffle();
    (parts, numbers, 0..8_usize).prop_map(|(((devices, dims), order, reshape), numbers, form)| {
        let tiles = match form {
            0 => return GspmdSharding::get_replicated(&devices).unwrap(),
            1 => return GspmdSharding::new(&devices, HloSharding::maximal(numbers[0])).unwrap(),
            2 => TileAssignment::listed(dims, numbers),
            _ => TileAssignment::iota(dims, reshape, order),
        };
        GspmdSharding::new(&devices, HloSharding::tiled(tiles.unwrap(), [Subgroup::Replicated]).unwrap())
            .unwrap()
    })
}

/// A sharding of any kind, in which every device holds elements, for tensors of three axes.
fn any_sharding() -> impl Strategy<Value = Arc<dyn Sharding>> {
    let single = (0..DEVICES).prop_map(|slot| SingleDeviceSharding::new(Device::cpu().with_slot(slot)));
    prop_oneof![
        4 => any_named(false).prop_map(|sharding| Arc::new(sharding) as Arc<dyn Sharding>),
        4 => any_mapping(false).prop_map(|sharding| Arc::new(sharding) as Arc<dyn Sharding>),
        1 => single.prop_map(|sharding| Arc::new(sharding) as Arc<dyn Sharding>),
        4 => any_positional().prop_map(|sharding| Arc::new(sharding) as Arc<dyn Sharding>),
        4 => any_gspmd().prop_map(|sharding| Arc::new(sharding) as Arc<dyn Sharding>),
    ]
}

fn regions(sharding: &dyn Sharding, shape: &Shape) -> Vec<(Device, Region)> {
    sharding.devices_indices_map(shape).unwrap().collect()
}

/// Checks all that a sharding says about tensors of a shape against its index map, element by element.
fn check(sharding: &dyn Sharding, shape: &Shape) {
    let held = regions(sharding, shape);
    assert_eq!(held.len(), sharding.num_devices(), "{sharding}");
    let devices: Vec<Device> = sharding.device_set().unwrap().collect();
    assert_eq!(devices, held.iter().map(|(device, _)| *device).collect::<Vec<_>>());
    assert_eq!(devices, sharding.device_order().unwrap().devices().collect::<Vec<_>>());

    // One device at a time answers as the walk does.
    let map = sharding.devices_indices_map(shape).unwrap();
    for (i, (device, region)) in held.iter().enumerate() {
        assert_eq!(&map.of(*device).unwrap(), region, "{sharding} {shape}");
        assert_eq!(map.clone().nth(i).as_ref(), held.get(i));
        let earlier = held[..i].iter().filter(|(_, other)| other == region).count();
        assert_eq!(map.replica_id(*device).unwrap(), earlier, "{sharding} {shape} {device}");
        let extents: Shape =
            region.iter().map(|ranges| ranges.iter().map(|range| range.len()).sum()).collect();
        assert_eq!(sharding.shard_shape_of(shape, *device).unwrap(), extents);
    }
    let first = sharding.shard_shape_of(shape, devices[0]).unwrap();
    let alike = devices.iter().all(|device| sharding.shard_shape_of(shape, *device).unwrap() == first);
    match sharding.shard_shape(shape) {
        Ok(each) => assert!(alike && each == first, "{sharding} {shape}: {each}"),
        Err(error) => {
            assert!(!alike && error.kind() == ErrorKind::Indivisible, "{sharding} {shape}: {error}")
        }
    }

    // Every element is covered exactly as often as its region is held.
    let mut covered = vec![0_usize; shape.elements()];
    let mut distinct: Vec<(&Region, usize)> = Vec::new();
    for (_, region) in &held {
        elements(shape, region).for_each(|element| covered[element] += 1);
        match distinct.iter_mut().find(|(known, _)| *known == region) {
            Some((_, times)) => *times += 1,
            None => distinct.push((region, 1)),
        }
    }
    let mut wanted = vec![0_usize; shape.elements()];
    for (region, times) in &distinct {
        for element in elements(shape, region) {
            assert_eq!(wanted[element], 0, "{sharding} {shape}: two pieces share element {element}");
            wanted[element] = *times;
        }
    }
    assert!(covered == wanted && !covered.contains(&0), "{sharding} {shape}: {covered:?}");

    let whole: Region = shape.iter().map(|extent| std::iter::once(0..*extent).collect()).collect();
    let replicated = held.iter().all(|(_, region)| *region == whole);
    assert!(replicated || !sharding.is_fully_replicated(), "{sharding} {shape}");
}

/// The row-major numbers of the elements of a region.
fn elements(shape: &Shape, region: &Region) -> impl Iterator<Item = usize> {
    let mut elements = vec![0];
    for (extent, ranges) in shape.iter().zip(region) {
        elements = elements
            .iter()
            .flat_map(|outer| ranges.iter().cloned().flatten().map(move |i| outer * extent + i))
            .collect();
    }
    elements.into_iter()
}
