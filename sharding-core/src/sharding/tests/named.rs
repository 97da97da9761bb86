//! Shardings by name.

use super::*;
use crate::{Scope, spec};

fn refused(mesh: &DeviceMesh, spec: PartitionSpec, kind: ErrorKind) {
    for error in [
        NamedSharding::new(mesh, spec.clone()).unwrap_err(),
        NamedSharding::on_abstract(&mesh.to_abstract(), spec).unwrap_err(),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.fix().is_some(), "{error}");
    }
}

#[test]
fn checks_come_in_their_order() {
    let (auto, explicit) = (grid(), explicit(&grid()));
    // Twice, before unknown, before unconstrained, before the sets.
    refused(&auto, spec!["z", "z"], ErrorKind::DuplicateAxis);
    refused(&explicit, spec!["x", ("y", "x"), "z", SpecEntry::unconstrained()], ErrorKind::DuplicateAxis);
    refused(&explicit, spec!["z", SpecEntry::unconstrained()], ErrorKind::Axis);
    refused(&auto, spec!["z"].with_unreduced(["x"]).unwrap(), ErrorKind::Axis);
    let both = spec![SpecEntry::unconstrained()].with_unreduced(["q"]).unwrap();
    refused(&explicit, both.clone(), ErrorKind::Mapping);
    refused(&auto, both, ErrorKind::Unreduced);
    refused(&auto, spec![].with_unreduced(["x"]).unwrap(), ErrorKind::Unreduced);
    refused(&auto, spec![].with_reduced(["x"]).unwrap(), ErrorKind::Unreduced);
    refused(&explicit, spec![].with_reduced(["q"]).unwrap(), ErrorKind::Unreduced);
    let mixed = auto.with_axis_types([AxisType::Auto, AxisType::Explicit]).unwrap();
    let fine = spec![SpecEntry::unconstrained(), None].with_unreduced(["y"]).unwrap();
    assert_eq!(NamedSharding::new(&mixed, fine).unwrap().replicated_axes(), ["x"]);
}

#[test]
fn the_number_of_axes_comes_before_divisibility_and_both_say_what_and_where() {
    let sharding = NamedSharding::new(&grid(), spec![None, ("x", "y")]).unwrap();
    let refused = |shape: Shape| sharding.shard_shape(&shape).unwrap_err();
    let error = refused(Shape::from([3, 12]));
    assert_eq!(error.kind(), ErrorKind::Indivisible);
    assert_eq!(
        error.message(),
        r#"NamedSharding(DeviceMesh(x=4, y=2), PartitionSpec(None, ("x", "y"))) cuts tensor axis 1 8 ways, which does not divide its size 12 (shape [3, 12])"#
    );
    assert!(error.fix().unwrap().starts_with("pad the axis to 16, or "));
    assert_eq!(refused(Shape::from([3])).kind(), ErrorKind::Dimensions);
    assert!(refused(Shape::from([])).fix().unwrap().contains("spec![]"));
    // A surplus entry of none counts as well.
    let surplus = NamedSharding::new(&grid(), spec!["x", None]).unwrap();
    assert_eq!(surplus.shard_shape(&Shape::from([5])).unwrap_err().kind(), ErrorKind::Dimensions);
    assert_eq!(sharding.shard_shape(&Shape::from([3, 0])).unwrap(), Shape::from([3, 0]));
}

#[test]
fn an_index_map_is_for_values_and_not_for_terms() {
    let mesh = explicit(&grid());
    let sum = NamedSharding::new(&mesh, spec!["y"].with_unreduced(["x"]).unwrap()).unwrap();
    let shape = Shape::from([8]);
    assert_eq!(sum.shard_shape(&shape).unwrap(), Shape::from([4]));
    assert_eq!(sum.devices_indices_map(&shape).unwrap_err().kind(), ErrorKind::Unreduced);
    assert!(!sum.is_fully_replicated());
    // An axis of one device has nothing to sum over.
    let thin = explicit(&mesh_of_one_by_eight());
    let one = NamedSharding::new(&thin, spec!["y"].with_unreduced(["x"]).unwrap()).unwrap();
    assert_eq!(regions(&one, &shape).len(), 8);
    assert!(NamedSharding::new(&thin, spec![].with_unreduced(["x"]).unwrap()).unwrap().is_fully_replicated());
}
fn mesh_of_one_by_eight() -> DeviceMesh {
    mesh(&[1, 8], &["x", "y"])
}

#[test]
fn a_manual_axis_leaves_a_type_only() {
    let mesh = grid().with_axis_types([AxisType::Manual, AxisType::Auto]).unwrap();
    let sharding = NamedSharding::new(&mesh, spec!["y"]).unwrap();
    let error = sharding.shard_shape(&Shape::from([8])).unwrap_err();
    assert_eq!((error.kind(), error.mesh_axis()), (ErrorKind::Sharding, Some(("x", 4))));
    assert!(!sharding.is_fully_replicated());
    assert!(sharding.is_equivalent_to(&NamedSharding::new(&grid(), spec!["y"]).unwrap(), 1).unwrap());
}

/// Types do not say where data lies: what is named is cut as ever, so that a tensor can be placed for a region. JAX's index maps
/// say the same of a mesh whose axes are all named.
#[test]
fn a_manual_axis_that_is_named_is_cut() {
    let types = [AxisType::Manual, AxisType::Auto];
    let check_on = |mesh: &DeviceMesh, plain: &DeviceMesh, spec: PartitionSpec| {
        let sharding = NamedSharding::new(mesh, spec.clone()).unwrap();
        check(&sharding, &Shape::from([8, 8]));
        let plain = NamedSharding::new(plain, spec).unwrap();
        assert!(sharding.is_equivalent_to(&plain, 2).unwrap());
        assert_eq!(sharding.hlo(2).unwrap(), plain.hlo(2).unwrap());
        assert_eq!(sharding.spread().unwrap().places(), plain.spread().unwrap().places());
    };
    check_on(&grid().with_axis_types(types).unwrap(), &grid(), spec!["x"]);
    check_on(&grid().with_axis_types(types).unwrap(), &grid(), spec!["y", "x"]);
    check_on(&grid().with_axis_types([AxisType::Manual; 2]).unwrap(), &grid(), spec![("y", "x")]);
    // One device has no view that differs.
    let thin = mesh_of_one_by_eight();
    check_on(&thin.with_axis_types(types).unwrap(), &thin, spec![]);
    // The number of axes first, as everywhere.
    let mesh = grid().with_axis_types([AxisType::Manual; 2]).unwrap();
    let sharding = NamedSharding::new(&mesh, spec!["x", None]).unwrap();
    assert_eq!(sharding.shard_shape(&Shape::from([3])).unwrap_err().kind(), ErrorKind::Dimensions);
    assert_eq!(sharding.shard_shape(&Shape::from([3, 1])).unwrap_err().kind(), ErrorKind::Sharding);
    assert_eq!(sharding.hlo(2).unwrap().to_string(), "{devices=[4,1,2]<=[8] last_tile_dims={manual}}");
}

#[test]
fn an_abstract_mesh_has_no_devices_to_ask_about() {
    let mesh = AbstractMesh::new([4, 2], ["x", "y"]).unwrap();
    let sharding = NamedSharding::on_abstract(&mesh, spec!["x"]).unwrap();
    let shape = Shape::from([8]);
    assert_eq!(sharding.shard_shape(&shape).unwrap(), Shape::from([2]));
    assert_eq!((sharding.num_devices(), sharding.memory_kind()), (8, None));
    let errors = [
        sharding.device_set().map(drop),
        sharding.addressable_devices().map(drop),
        sharding.devices_indices_map(&shape).map(drop),
        sharding.addressable_devices_indices_map(&shape).map(drop),
        sharding.shard_shape_of(&shape, Device::cpu()).map(drop),
        sharding.is_fully_addressable().map(drop),
        sharding.spread().map(drop),
    ];
    assert!(errors.into_iter().all(|error| error.unwrap_err().kind() == ErrorKind::Mesh));
    // Names do not count, devices do.
    let other = NamedSharding::on_abstract(
        &AbstractMesh::new([2, 2, 2], ["p", "q", "r"]).unwrap(),
        spec![("p", "q")],
    );
    assert!(sharding.is_equivalent_to(&other.unwrap(), 1).unwrap());
    let concrete = sharding.on(&grid()).unwrap();
    let single = SingleDeviceSharding::new(Device::cpu());
    for with_devices in [&concrete as &dyn Sharding, &single] {
        assert!(!sharding.is_equivalent_to(with_devices, 1).unwrap());
        assert!(!with_devices.is_equivalent_to(&sharding, 1).unwrap());
    }
    assert_eq!(
        sharding.in_memory(MemoryKind::PinnedHost).unwrap().memory_kind(),
        Some(MemoryKind::PinnedHost)
    );
}

#[test]
fn equality_is_of_what_is_written() {
    let named = |mesh: &DeviceMesh, spec| NamedSharding::new(mesh, spec).unwrap();
    let x = named(&grid(), spec!["x"]);
    assert_eq!(x, named(&grid(), spec![["x"]]));
    assert_ne!(x, named(&grid(), spec!["x", None]));
    assert_ne!(x, named(&explicit(&grid()), spec!["x"]));
    assert_ne!(x, NamedSharding::on_abstract(&grid().to_abstract(), spec!["x"]).unwrap());
    assert_ne!(x, x.clone().in_memory(MemoryKind::UnpinnedHost).unwrap());
    assert_eq!(x.with_spec(spec!["x"]).unwrap(), x);
    assert!(x.is_equivalent_to(&named(&explicit(&grid()), spec!["x", None]), 2).unwrap());
}

#[test]
fn a_cut_beyond_the_axes_asked_about_is_an_error() {
    let x = NamedSharding::new(&grid(), spec![None, "x"]).unwrap();
    assert_eq!(x.is_equivalent_to(&x, 1).unwrap_err().kind(), ErrorKind::Dimensions);
    let none = NamedSharding::new(&grid(), spec![None, None]).unwrap();
    assert!(none.is_equivalent_to(&NamedSharding::new(&grid(), spec![]).unwrap(), 0).unwrap());
}

#[test]
fn any_number_of_axes_can_be_asked_about() {
    let x = NamedSharding::new(&grid(), spec!["x"]).unwrap();
    assert!(x.is_equivalent_to(&x, usize::MAX).unwrap());
    let none = NamedSharding::new(&grid(), spec![None]).unwrap();
    assert!(!x.is_equivalent_to(&none, usize::MAX).unwrap() && !none.is_equivalent_to(&x, 2).unwrap());
    assert_eq!(x.hlo(usize::MAX).unwrap_err().kind(), ErrorKind::Dimensions);
    let padded = NamedSharding::new(&grid(), spec!["x", None, None]).unwrap();
    assert!(x.is_equivalent_to(&padded, 3).unwrap() && padded.is_equivalent_to(&x, 1).unwrap());
}

#[test]
fn devices_of_other_processes_are_known_but_not_addressable() {
    let devices: Vec<Device> = (0..8).map(|i| Device::cpu().with_slot(i).with_process(i / 4)).collect();
    let mesh = DeviceMesh::new(&devices, [4, 2], ["x", "y"]).unwrap();
    let sharding = NamedSharding::new(&mesh, spec!["y", "x"]).unwrap();
    let shape = Shape::from([2, 4]);
    let mine = |process: u32| {
        let scope = (*Scope::current()).clone().with_process(process);
        scope.enter(|| {
            assert!(!sharding.is_fully_addressable().unwrap());
            let map = sharding.addressable_devices_indices_map(&shape).unwrap();
            let other = devices[if process == 1 { 0 } else { 7 }];
            assert_eq!(map.of(other).unwrap_err().kind(), ErrorKind::Argument);
            assert_eq!(map.clone().nth(1), map.clone().collect::<Vec<_>>().get(1).cloned());
            let held: Vec<Device> = map.map(|(device, _)| device).collect();
            assert_eq!(sharding.addressable_devices().unwrap().collect::<Vec<_>>(), held);
            held
        })
    };
    assert_eq!([mine(0), mine(1), mine(2)], [devices[..4].to_vec(), devices[4..].to_vec(), Vec::new()]);
    assert_eq!(sharding.device_set().unwrap().count(), 8);
    let local = NamedSharding::new(&grid(), spec![]).unwrap();
    assert!(local.is_fully_addressable().unwrap());
    assert_eq!(local.addressable_devices().unwrap().size_hint(), (8, Some(8)));
    assert!((*Scope::current()).clone().with_process(3).enter(|| !local.is_fully_addressable().unwrap()));
}

#[test]
fn unknown_memory_names_the_known() {
    let gpus: Vec<Device> = (0..2).map(|i| Device::new(BackendKind::CUDA, i)).collect();
    let sharding = NamedSharding::new(&DeviceMesh::new(&gpus, [2], ["x"]).unwrap(), spec!["x"]).unwrap();
    let error = sharding.with_memory_kind(Some(MemoryKind::UnpinnedHost)).unwrap_err();
    assert_eq!((error.kind(), error.fix()), (ErrorKind::MemoryKind, Some("use one of device, pinned_host")));
    assert_eq!(
        sharding.with_memory_kind(Some(MemoryKind::PinnedHost)).unwrap().to_string(),
        r#"NamedSharding(DeviceMesh(x=2), PartitionSpec("x"), pinned_host)"#
    );
}
