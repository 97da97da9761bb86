//! Tensors of what each of several pretended processes has, and of arrays on single devices.

use ndarray::{Array, ArrayD, Axis, IxDyn};
use sharding_ops::{
    DType, Device, DeviceMapping, DeviceMesh, Error, ErrorKind, HostCopy, HostData, Interleaved,
    LocalDataOptions, NamedSharding, PartitionSpec, Place, ReplicaPolicy, Result, Scope,
    SingleDeviceSharding, Target, Tensor, ToNdarray, cast, from_process_local_data, place_host_array, spec,
};
use std::collections::{BTreeMap, BTreeSet};

/// A 2x2 mesh whose devices belong to these processes.
fn mesh(owners: [u32; 4]) -> DeviceMesh {
    let devices: Vec<Device> = owners
        .into_iter()
        .enumerate()
        .map(|(slot, owner)| Device::cpu().with_process(owner).with_slot(slot as u32))
        .collect();
    DeviceMesh::new(&devices, [2, 2], ["x", "y"]).unwrap()
}

fn as_process<T>(process: u32, f: impl FnOnce() -> T) -> T {
    (*Scope::current()).clone().with_process(process).enter(f)
}

/// The part of an array that is at the indices a process holds, axis by axis; on the axes in `whole` all of it.
fn part_of(array: &ArrayD<f32>, mapping: &DeviceMapping, process: u32, whole: usize) -> ArrayD<f32> {
    let mut part = array.clone();
    for axis in 0..array.ndim() {
        if whole >> axis & 1 == 1 {
            continue;
        }
        let mut held: BTreeSet<usize> = BTreeSet::new();
        for (position, device) in mapping.mesh().devices().enumerate() {
            if device.process == process {
                let ranges = mapping.ranges(axis, array.shape()[axis], position);
                held.extend(ranges.iter().cloned().flatten());
            }
        }
        part = part.select(Axis(axis), &held.into_iter().collect::<Vec<_>>());
    }
    part
}

/// Whether two processes hold one part that has elements.
fn has_replicas(mapping: &DeviceMapping, shape: &[usize]) -> bool {
    let mut holders: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for (position, device) in mapping.mesh().devices().enumerate() {
        let region = mapping.region(&shape.into(), position);
        if mapping.local_shape(&shape.into(), position).elements() > 0 {
            holders.entry(format!("{region:?}")).or_default().insert(device.process);
        }
    }
    holders.values().any(|processes| processes.len() > 1)
}

/// What the call gives in a process is what cutting the whole gives there.
fn check(owners: [u32; 4], array: &ArrayD<f32>, target: impl Fn(&DeviceMesh) -> Result<DeviceMapping>) {
    let mesh = mesh(owners);
    let mapping = target(&mesh).unwrap();
    let replicas = has_replicas(&mapping, array.shape());
    for process in owners.into_iter().collect::<BTreeSet<_>>() {
        for whole in 0..1 << array.ndim() {
            as_process(process, || {
                let part = part_of(array, &mapping, process, whole);
                let values: Vec<f32> = array.iter().copied().collect();
                let want = Tensor::from_slice(&values, array.shape(), &mapping).unwrap();
                for copy in [HostCopy::Always, HostCopy::WhereNeeded] {
                    let options = LocalDataOptions::new(ReplicaPolicy::AssumeConsistent).with_copy(copy);
                    let x = from_process_local_data(part.clone(), array.shape(), &mapping, options).unwrap();
                    assert_eq!((x.layout(), x.positions()), (want.layout(), want.positions()));
                    for (got, want) in x.addressable_shards().zip(want.addressable_shards()) {
                        assert_eq!(got.to_ndarray::<f32>().unwrap(), want.to_ndarray::<f32>().unwrap());
                        assert_eq!(got.replica_id(), want.replica_id());
                    }
                    assert_eq!(x.addressable_payload_nbytes(), want.addressable_payload_nbytes());
                }
                let strict =
                    from_process_local_data(part.view(), array.shape(), &mapping, ReplicaPolicy::Disallow);
                match strict {
                    Ok(_) => assert!(!replicas),
                    Err(error) => {
                        assert!(replicas, "{error}");
                        assert_eq!(error.kind(), ErrorKind::Process);
                    }
                }
            });
        }
    }
}

fn numbered(shape: &[usize]) -> ArrayD<f32> {
    let n: usize = shape.iter().product();
    Array::from_iter((0..n).map(|i| i as f32)).into_shape_with_order(IxDyn(shape)).unwrap()
}

/// Every way to give four devices to three processes.
fn owners() -> impl Iterator<Item = [u32; 4]> {
    (0..81_u32).map(|i| [i % 3, i / 3 % 3, i / 9 % 3, i / 27])
}

#[test]
fn every_grid_of_owners_under_placements() {
    use Place::{Replicated as R, Sharded as S};
    let placements = [
        [R, R],
        [S(0), R],
        [R, S(1)],
        [S(0), S(1)],
        [S(1), S(0)],
        [S(0), S(0)],
        [Interleaved::place(0, [2, 3]), R],
        [S(1), Interleaved::place(0, [4, 1])],
    ];
    // Uneven cuts, and empty pieces.
    for shape in [[5, 3], [5, 1], [5, 0]] {
        let array = numbered(&shape);
        for owners in owners() {
            for places in placements {
                check(owners, &array, |mesh| DeviceMapping::new(mesh, places));
            }
        }
    }
}

#[test]
fn every_grid_of_owners_under_specs() {
    let specs: [PartitionSpec; 5] =
        [spec![("x", "y")], spec![("y", "x")], spec!["y", "x"], spec![None, ("y", "x")], spec![]];
    let array = numbered(&[4, 8]);
    for owners in owners() {
        for spec in &specs {
            check(owners, &array, |mesh| {
                NamedSharding::new(mesh, spec.clone())?.mapping_for(&[4, 8].into()).map(|m| m.into_owned())
            });
        }
    }
}

/// The kind and the text of what is refused.
fn refused(
    process: u32,
    local: &[usize],
    global: &[usize],
    target: &(impl Target + ?Sized),
    options: impl Into<LocalDataOptions>,
    kind: ErrorKind,
    words: &str,
) {
    let outcome = as_process(process, || from_process_local_data(numbered(local), global, target, options));
    let error: Error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.op()), (kind, Some("from_process_local_data")), "{error}");
    assert!(error.to_string().contains(words) && error.fix().is_some(), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_and_named() -> Result<()> {
    use ReplicaPolicy::{AssumeConsistent, Disallow};
    let grid = mesh([0, 0, 1, 1]);
    let rows = &NamedSharding::new(&grid, spec!["x"])?;
    let both = &DeviceMapping::new(&grid, [Place::Replicated, Place::Sharded(0)])?;
    refused(0, &[4, 1], &[8], rows, Disallow, ErrorKind::Dimensions, "2 axes");
    refused(0, &[2], &[8], rows, Disallow, ErrorKind::Shape, "this process holds 4 of 8");
    refused(0, &[4], &[7], rows, Disallow, ErrorKind::Indivisible, "7");
    refused(0, &[8], &[8], both, Disallow, ErrorKind::Process, "hold the same part");
    refused(2, &[8], &[8], rows, AssumeConsistent, ErrorKind::Process, "addresses no device");
    let sum = &DeviceMapping::new(&grid, [Place::PARTIAL, Place::Replicated])?;
    refused(0, &[8], &[8], sum, AssumeConsistent, ErrorKind::Mapping, "Partial");
    let claim = LocalDataOptions::new(Disallow);
    refused(1, &[4], &[8], rows, claim.with_process_index(0), ErrorKind::Process, "this is process 1");
    refused(1, &[4], &[8], rows, claim.with_process_count(3), ErrorKind::Process, "2 processes");
    refused(1, &[4], &[8], rows, claim.with_process_count(0), ErrorKind::Argument, "at least one");
    // The index is looked at first, as tinax does.
    let both = claim.with_process_index(0).with_process_count(0);
    refused(1, &[4], &[8], rows, both, ErrorKind::Process, "this is process 1");
    // A whole array is one process's own.
    let error = place_host_array(numbered(&[8]), rows, HostCopy::Always).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Process, Some("place_host_array")));
    assert!(error.fix().is_some_and(|fix| fix.contains("from_process_local_data")), "{error}");
    as_process(1, || {
        let claim = claim.with_process_index(1).with_process_count(2);
        from_process_local_data(numbered(&[4]), [8], rows, claim).map(drop)
    })?;
    Ok(())
}

/// An array of its own on each device.
fn alone(device: Device, shape: [usize; 1], first: i64) -> Tensor {
    let values: Vec<i64> = (first..first + shape[0] as i64).collect();
    Tensor::from_slice(&values, shape, &SingleDeviceSharding::new(device)).unwrap()
}

#[test]
fn arrays_on_single_devices_are_put_together_where_they_lie() -> Result<()> {
    let mesh = mesh([0; 4]);
    let rows = NamedSharding::new(&mesh, spec![("y", "x")])?;
    let devices: Vec<Device> = mesh.devices().collect();
    let pieces = [2, 0, 3, 1].map(|i| alone(devices[i], [2], 10 * i as i64));
    let x = Tensor::from_single_device_arrays([8], &rows, &pieces)?;
    // In the order of the spec: y first.
    assert_eq!(x.to_vec::<i64>()?, [0, 1, 20, 21, 10, 11, 30, 31]);
    for shard in x.addressable_shards() {
        let own = pieces.iter().find(|piece| piece.mesh().device(0) == Some(shard.device())).unwrap();
        assert!(shard.data().same_as(&own.shards()[0]), "it was copied");
    }
    let refused = |shape: [usize; 1], pieces: &[Tensor], kind: ErrorKind| {
        let error = Tensor::from_single_device_arrays(shape, &rows, pieces).unwrap_err();
        assert_eq!((error.kind(), error.op()), (kind, Some("from_single_device_arrays")), "{error}");
        assert!(error.fix().is_some());
    };
    refused([8], &pieces[..3], ErrorKind::Mesh);
    refused([8], &[], ErrorKind::Mesh);
    let with_last = |last: Tensor| [pieces[0].clone(), pieces[1].clone(), pieces[2].clone(), last];
    refused([8], &with_last(pieces[0].clone()), ErrorKind::Mesh);
    refused([8], &with_last(alone(Device::cpu().with_slot(9), [2], 0)), ErrorKind::Mesh);
    refused([8], &with_last(alone(devices[1], [3], 0)), ErrorKind::Shape);
    refused([8], &with_last(cast(&alone(devices[1], [2], 0), DType::I32)?), ErrorKind::DType);
    refused([8], &with_last(x.clone()), ErrorKind::Mesh);
    refused([9], &pieces, ErrorKind::Indivisible);
    // Each process brings its own.
    let two = super::process::mesh([0, 1, 0, 1]);
    let rows = NamedSharding::new(&two, spec!["y"])?;
    as_process(1, || -> Result<()> {
        let devices: Vec<Device> = two.devices().filter(|device| device.process == 1).collect();
        let pieces: Vec<Tensor> = devices.iter().map(|device| alone(*device, [3], 5)).collect();
        let x = Tensor::from_single_device_arrays([6], &rows, &pieces)?;
        assert_eq!(x.positions()[..], [1, 3]);
        let held: Vec<_> =
            x.addressable_indices().map(|(device, region)| (device, region[0][0].clone())).collect();
        assert_eq!(held, [(devices[0], 3..6), (devices[1], 3..6)]);
        Ok(())
    })
}

#[test]
fn a_callback_makes_what_a_named_sharding_says() -> Result<()> {
    use sharding_ops::{Element, TensorLayout};
    let mesh = mesh([0; 4]);
    let layout = TensorLayout::new(DType::I64, [4, 2], NamedSharding::new(&mesh, spec![("y", "x")])?)?;
    let mut asked = Vec::new();
    let x = Tensor::from_callback(layout, |region, bytes| {
        asked.push(region[0][0].clone());
        bytes.copy_from_slice(i64::as_bytes(&[region[0][0].start as i64; 2]));
        Ok(())
    })?;
    assert_eq!((x.to_vec::<i64>()?, asked.len()), (vec![0, 0, 1, 1, 2, 2, 3, 3], 4));
    let data = HostData::owned(vec![1_i64; 8], [4, 2])?;
    assert_eq!(place_host_array(&data, x.mapping(), HostCopy::Always)?.layout(), x.layout());
    Ok(())
}
