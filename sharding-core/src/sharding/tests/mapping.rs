//! Mappings and single devices as shardings.

use super::*;

#[test]
fn shards_that_differ_have_no_one_shape() {
    let mapping = DeviceMapping::new(&grid(), [Place::Sharded(0), Place::Sharded(0)]).unwrap();
    let shape = Shape::from([10, 3]);
    let error = mapping.shard_shape(&shape).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indivisible);
    assert!(error.fix().unwrap().contains("shard_shape_of"));
    let rows = |slot| mapping.shard_shape_of(&shape, Device::cpu().with_slot(slot)).unwrap()[0];
    assert_eq!((0..8).map(rows).collect::<Vec<_>>(), [2, 2, 1, 1, 1, 1, 1, 1]);
    assert_eq!(
        mapping.shard_shape_of(&shape, Device::cpu().with_slot(8)).unwrap_err().kind(),
        ErrorKind::Argument
    );
    assert_eq!(mapping.shard_shape(&Shape::from([])).unwrap_err().kind(), ErrorKind::Dimensions);
    // Fewer rows than devices: the empty shards are the same indices, so replicas.
    check(&mapping, &Shape::from([3, 2]));
}

#[test]
fn custom_placements_are_asked_for_their_ranges() {
    let line = mesh(&[3], &["x"]);
    let ragged = DeviceMapping::new(&line, [Ragged::place(0, [3, 1, 2])]).unwrap();
    check(&ragged, &Shape::from([6, 2]));
    assert_eq!(ragged.shard_shape(&Shape::from([7, 2])).unwrap_err().kind(), ErrorKind::Mapping);
    let fused = DeviceMapping::new(&line, [Interleaved::place(1, [3, 6])]).unwrap();
    check(&fused, &Shape::from([2, 9]));
    // Shards of one size that are not the balanced ones.
    let even = DeviceMapping::new(&line, [Interleaved::place(1, [3, 3])]).unwrap();
    check(&even, &Shape::from([2, 6]));
    assert_eq!(even.shard_shape(&Shape::from([2, 6])).unwrap(), Shape::from([2, 2]));
    let plain = DeviceMapping::new(&line, [Place::Sharded(1)]).unwrap();
    assert!(!even.is_equivalent_to(&plain, 2).unwrap() && !even.is_equivalent_to(&fused, 2).unwrap());
    assert!(even.is_equivalent_to(&even.clone(), 2).unwrap());
}

#[test]
fn terms_and_unknowns_are_equivalent_to_themselves_only() {
    let mapping = |places: [Place; 2]| DeviceMapping::new(&grid(), places).unwrap();
    let all = [
        mapping([Place::PARTIAL, Place::Replicated]),
        mapping([Place::Replicated, Place::PARTIAL]),
        mapping([Place::Partial(ReduceOp::Max), Place::Replicated]),
        mapping([Place::Unknown, Place::Replicated]),
        mapping([Place::Unknown, Place::PARTIAL]),
        mapping([Place::PARTIAL, Place::Unknown]),
        mapping([Place::Replicated, Place::Replicated]),
    ];
    for (i, a) in all.iter().enumerate() {
        for (j, b) in all.iter().enumerate() {
            assert_eq!(a.is_equivalent_to(b, 1).unwrap(), i == j, "{a} {b}");
        }
        let map = a.devices_indices_map(&Shape::from([4])).map(drop);
        assert_eq!(map.is_ok(), Sharding::is_fully_replicated(a), "{a}");
    }
}

#[test]
fn an_axis_of_one_device_splits_nothing() {
    let thin =
        DeviceMapping::new(&mesh(&[1, 8], &["x", "y"]), [Place::Sharded(0), Place::Replicated]).unwrap();
    assert!(Sharding::is_fully_replicated(&thin) && !thin.is_fully_replicated());
    check(&thin, &Shape::from([5]));
}

#[test]
fn one_device_takes_any_number_of_axes() {
    let single = SingleDeviceSharding::new(Device::cpu().with_slot(3));
    for shape in [Shape::from([]), Shape::from([0]), Shape::from([2, 3])] {
        check(&single, &shape);
    }
    let other = SingleDeviceSharding::new(Device::cpu());
    assert!(!single.is_equivalent_to(&other, 1).unwrap());
    let near = NamedSharding::new(&DeviceMesh::single(single.device()), crate::spec!["_"]).unwrap();
    assert!(near.is_equivalent_to(&single, 1).unwrap() && single.is_equivalent_to(&near, 1).unwrap());
    let error = single.shard_shape_of(&Shape::from([2]), Device::cpu()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.to_string().contains("cpu:0/3"), "{error}");
}
