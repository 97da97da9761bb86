//! HLO-style shardings on devices.

use super::*;
use crate::spec;

fn on(mesh: &DeviceMesh, text: &str) -> Result<GspmdSharding> {
    GspmdSharding::on(mesh, text.parse().unwrap())
}

#[test]
fn lists_of_another_length_are_refused() {
    let kind = |text: &str| on(&grid(), text).unwrap_err().kind();
    assert_eq!(kind("{devices=[2,2]<=[4]}"), ErrorKind::Mapping);
    assert_eq!(kind("{devices=[16]<=[16]}"), ErrorKind::Mapping);
    assert_eq!(kind("{maximal device=8}"), ErrorKind::Mapping);
    assert_eq!(kind("{{replicated}, {replicated}}"), ErrorKind::Mapping);
    let devices = |devices: &[Device]| GspmdSharding::get_replicated(devices).map_err(|error| error.kind());
    assert_eq!(devices(&[]), Err(ErrorKind::Mesh));
    assert_eq!(devices(&[Device::cpu(), Device::cpu()]), Err(ErrorKind::Mesh));
    assert!(devices(&[Device::cpu()]).unwrap().is_fully_replicated());
}

#[test]
fn the_number_of_axes_is_that_of_the_tiles() {
    let rows = on(&grid(), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}").unwrap();
    check(&rows, &Shape::from([8, 3]));
    for shape in [Shape::from([]), Shape::from([8]), Shape::from([8, 3, 1])] {
        assert_eq!(rows.shard_shape(&shape).unwrap_err().kind(), ErrorKind::Dimensions);
    }
    let error = rows.shard_shape(&Shape::from([6, 3])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indivisible);
    assert!(error.message().contains("tensor axis 0 4 ways, which does not divide its size 6"), "{error}");
    let all = on(&grid(), "{replicated}").unwrap();
    for shape in [Shape::from([]), Shape::from([0]), Shape::from([3, 5])] {
        check(&all, &shape);
    }
}

/// JAX compares the tiles, whatever number of axes it is asked about; a sharding by name has tiles for that number.
#[test]
fn tiles_for_another_number_of_axes_are_equivalent_to_the_same_tiles_only() {
    let rows = on(&grid(), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}").unwrap();
    let named = NamedSharding::new(&grid(), spec!["x"]).unwrap();
    let array = PositionalSharding::on(&grid()).unwrap().replicate(Some(&[1]), true).unwrap();
    let all = NamedSharding::new(&grid(), spec![]).unwrap();
    for ndim in 0..4 {
        assert!(rows.is_equivalent_to(&rows, ndim).unwrap() && rows.is_equivalent_to(&array, ndim).unwrap());
        assert!(!rows.is_equivalent_to(&all, ndim).unwrap() && !all.is_equivalent_to(&rows, ndim).unwrap());
        if ndim > 0 {
            assert_eq!(rows.is_equivalent_to(&named, ndim).unwrap(), ndim == 2);
            assert_eq!(named.is_equivalent_to(&array, ndim).unwrap(), ndim == 2);
        }
    }
    // Names that cut an axis beyond the last are for tensors of several numbers of axes, of which this is none.
    assert_eq!(named.is_equivalent_to(&rows, 0).unwrap_err().kind(), ErrorKind::Dimensions);
    assert_eq!((rows.tensor_ndim(), array.tensor_ndim(), named.tensor_ndim()), (Some(2), Some(2), None));
}

#[test]
fn devices_in_no_order_of_axes_place_tensors() {
    let sharding = on(&mesh(&[4], &["x"]), "{devices=[2,2]0,1,3,2}").unwrap();
    assert_eq!(DeviceMapping::try_from(&sharding).unwrap_err().kind(), ErrorKind::Conversion);
    let mapping = sharding.spread().unwrap();
    assert_eq!(mapping.to_string(), "{axis0: Sharded(0), axis1: Sharded(1)}");
    let parts = on(&mesh(&[6], &["x"]), "{devices=[2,3]0,1,3,2,4,5 last_tile_dims={unreduced}}").unwrap();
    assert_eq!(parts.spread().unwrap().places(), [Place::Sharded(0), Place::PARTIAL]);
    for (text, kind) in [("{manual}", ErrorKind::Sharding), ("{unknown}", ErrorKind::Sharding)] {
        let sharding = on(&grid(), text).unwrap();
        assert_eq!(sharding.spread().unwrap_err().kind(), ErrorKind::Conversion);
        assert_eq!(sharding.mapping_for(&Shape::from([8])).unwrap_err().kind(), kind);
    }
}

#[test]
fn a_maximal_one_lies_on_its_device() {
    let devices: Vec<Device> = (0..4).rev().map(|slot| Device::cpu().with_slot(slot)).collect();
    let sharding = GspmdSharding::new(&devices, HloSharding::maximal(1)).unwrap();
    check(&sharding, &Shape::from([3]));
    assert_eq!(sharding.device_set().unwrap().collect::<Vec<_>>(), [devices[1]]);
    assert_eq!(sharding.devices().count(), 4);
    assert!(sharding.is_fully_replicated());
    assert!(sharding.is_equivalent_to(&SingleDeviceSharding::new(devices[1]), 1).unwrap());
    let map = sharding.devices_indices_map(&Shape::from([3])).unwrap();
    assert_eq!(map.of(devices[0]).unwrap_err().kind(), ErrorKind::Argument);
    assert_ne!(sharding, GspmdSharding::get_replicated(&devices).unwrap());
}

#[test]
fn what_has_no_whole_has_no_shards() {
    let shape = Shape::from([8]);
    for text in ["{manual}", "{unknown}", "{devices=[4,2]<=[8] last_tile_dims={manual}}"] {
        let sharding = on(&grid(), text).unwrap();
        assert_eq!(sharding.shard_shape(&shape).unwrap_err().kind(), ErrorKind::Sharding, "{text}");
        assert_eq!(sharding.devices_indices_map(&shape).unwrap_err().kind(), ErrorKind::Sharding);
        assert!(!sharding.is_fully_replicated());
    }
    for (text, extent) in [("{unreduced}", 8), ("{devices=[2,4]<=[8] last_tile_dims={unreduced}}", 4)] {
        let sharding = on(&grid(), text).unwrap();
        assert_eq!(sharding.shard_shape(&shape).unwrap(), Shape::from([extent]));
        assert_eq!(sharding.devices_indices_map(&shape).unwrap_err().kind(), ErrorKind::Unreduced);
        assert!(!sharding.is_fully_replicated());
    }
    let unknown = on(&grid(), "{unknown}").unwrap();
    let whole = NamedSharding::new(&grid(), spec![]).unwrap();
    assert!(!unknown.is_equivalent_to(&whole, 1).unwrap() && !whole.is_equivalent_to(&unknown, 1).unwrap());
    assert!(!unknown.is_equivalent_to(&unknown, 1).unwrap());
    let same =
        |a: &str, b: &str| on(&grid(), a).unwrap().is_equivalent_to(&on(&grid(), b).unwrap(), 1).unwrap();
    assert!(
        same("{manual}", "{manual}") && !same("{manual}", "{replicated}") && !same("{manual}", "{unreduced}")
    );
}

#[test]
fn names_are_found_on_a_mesh_of_the_same_devices() {
    let by_name = |text: &str| on(&grid(), text).unwrap().to_named(&grid());
    let check = |text: &str, spec: PartitionSpec| {
        assert_eq!(by_name(text).unwrap(), NamedSharding::new(&grid(), spec).unwrap(), "{text}");
    };
    check("{replicated}", spec![]);
    check("{devices=[4,2]<=[8] last_tile_dim_replicate}", spec!["x"]);
    check("{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}", spec![None, "y"]);
    check("{devices=[8,1,1]<=[4,2]T(1,0)}", spec![("y", "x")]);
    check("{devices=[8]0,1,2,3,4,5,6,7}", spec![("x", "y")]);
    let refused = |text: &str| assert_eq!(by_name(text).unwrap_err().kind(), ErrorKind::Conversion, "{text}");
    // Two of the four places of x.
    refused("{devices=[2,4]<=[8] last_tile_dim_replicate}");
    refused("{devices=[8]1,0,2,3,4,5,6,7}");
    refused("{manual}");
    let reversed: Vec<Device> = (0..8).rev().map(|slot| Device::cpu().with_slot(slot)).collect();
    let other = DeviceMesh::new(&reversed, [4, 2], ["x", "y"]).unwrap();
    let error = on(&grid(), "{replicated}").unwrap().to_named(&other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conversion);
    // Where the mesh it was made on has no such axes, a mesh of its factors does.
    let halves = on(&grid(), "{devices=[2,4]<=[8] last_tile_dim_replicate}").unwrap();
    let named = NamedSharding::try_from(&halves).unwrap();
    assert_eq!(named.to_string(), r#"NamedSharding(DeviceMesh(axis0=2, axis1=4), PartitionSpec("axis0"))"#);
    assert!(named.is_equivalent_to(&halves, 1).unwrap());
}

proptest! {
    #[test]
    fn shardings_by_name_are_their_hlo(named in any_named(true)) {
        let mesh = named.mesh().unwrap();
        let gspmd = GspmdSharding::on(mesh, named.hlo(3).unwrap()).unwrap();
        prop_assert!(gspmd.is_equivalent_to(&named, 3).unwrap() && named.is_equivalent_to(&gspmd, 3).unwrap());
        prop_assert_eq!(gspmd.is_fully_replicated(), named.is_fully_replicated());
        prop_assert_eq!(&GspmdSharding::of_named(&named, 3).unwrap(), &gspmd);
        let spelled = gspmd.to_named(mesh).unwrap();
        prop_assert_eq!(spelled.hlo(3).unwrap(), named.hlo(3).unwrap());
    }
}

#[test]
fn one_device_of_a_million_costs_no_list() {
    let mesh = mesh(&[1024, 1024], &["x", "y"]);
    let text = "{devices=[512,1024,2]<=[2,512,1024]T(2,1,0)T(2,1,0)}".replace("T(2,1,0)T(2,1,0)", "T(1,2,0)");
    let begin = std::time::Instant::now();
    let sharding = on(&mesh, &text.replace('}', " last_tile_dim_replicate}")).unwrap();
    let map = sharding.devices_indices_map(&Shape::from([512, 2048])).unwrap();
    let device = mesh.device(3 * 1024 + 5).unwrap();
    assert_eq!(map.of(device).unwrap()[0][0], 3..4);
    assert_eq!(map.of(device).unwrap()[1][0], 10..12);
    assert_eq!(map.replica_id(device).unwrap(), 0);
    assert!(sharding.is_equivalent_to(&NamedSharding::try_from(&sharding).unwrap(), 2).unwrap());
    // Lists and walks over the devices would take hundreds of milliseconds in a build for tests.
    assert!(begin.elapsed().as_millis() < 100, "{:?}", begin.elapsed());
}
