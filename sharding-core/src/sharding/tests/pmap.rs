//! Rows on a device each.

use super::*;
use crate::Scope;

fn devices(n: u32) -> Vec<Device> {
    (0..n).map(|slot| Device::cpu().with_slot(slot)).collect()
}

/// A spec of tensor axes, cut or not, on a mesh of their chunks and up to one axis of copies, with the shape it is for.
fn any_pmap() -> impl Strategy<Value = (PmapSharding, Shape)> {
    let chunks = proptest::collection::vec(1_usize..4, 0..3);
    proptest::collection::vec(chunks, 0..4)
        .prop_flat_map(|axes| {
            let chunk_axes = axes.iter().map(Vec::len).sum::<usize>();
            let mesh: Vec<PmapMeshAxis> = (0..chunk_axes).map(PmapMeshAxis::ShardedAxis).collect();
            let copies = (1_usize..4).prop_map(PmapMeshAxis::Replicated);
            (Just(axes), Just(mesh), copies).prop_flat_map(|(axes, mut mesh, copies)| {
                mesh.push(copies);
                (Just(axes), Just(mesh).prop_shuffle())
            })
        })
        .prop_map(|(axes, mesh)| {
            let shape: Shape =
                axes.iter().map(|c| if c.is_empty() { 5 } else { c.iter().product() }).collect();
            let axes = axes
                .into_iter()
                .map(|c| if c.is_empty() { PmapAxis::NoSharding } else { PmapAxis::Chunked(c) });
            let spec = PmapSpec::new(axes, mesh).unwrap();
            let places: usize = spec.mesh_shape().iter().product();
            (PmapSharding::new(&devices(places as u32), spec).unwrap(), shape)
        })
}

proptest! {
    #[test]
    fn every_element_is_covered_exactly_as_often_as_it_is_replicated((sharding, shape) in any_pmap()) {
        check(&sharding, &shape);
        // Each mesh axis of chunks steps through its own part.
        let split = sharding.spec().split();
        let mesh = sharding.spec().mesh_shape();
        for (position, (_, region)) in regions(&sharding, &shape).into_iter().enumerate() {
            for (axis, holders) in split.iter().enumerate() {
                let coordinate = |at: usize| position / mesh[at + 1..].iter().product::<usize>() % mesh[at];
                let row = holders.iter().fold(0, |row, at| row * mesh[*at] + coordinate(*at));
                let want = if holders.is_empty() { 0..shape[axis] } else { row..row + 1 };
                prop_assert_eq!(region[axis][0].clone(), want);
            }
        }
    }

    #[test]
    fn tiles_say_the_same((sharding, shape) in any_pmap()) {
        let gspmd = GspmdSharding::try_from(&sharding).unwrap();
        prop_assert!(gspmd.is_equivalent_to(&sharding, shape.len()).unwrap());
        prop_assert_eq!(regions(&gspmd, &shape), regions(&sharding, &shape));
        let back = PmapSharding::try_from(&gspmd).unwrap();
        prop_assert!(back.is_equivalent_to(&sharding, shape.len()).unwrap());
        let positional = PositionalSharding::try_from(&sharding).unwrap();
        prop_assert!(positional.is_equivalent_to(&sharding, shape.len()).unwrap());
        prop_assert!(NamedSharding::try_from(&sharding).unwrap().is_equivalent_to(&sharding, shape.len()).unwrap());
        let mapping = sharding.mapping_for(&shape).unwrap();
        let indices = mapping.devices_indices_map(&shape).unwrap();
        for (device, region) in regions(&sharding, &shape) {
            prop_assert_eq!(indices.of(device).unwrap(), region);
        }
    }
}

#[test]
fn default_gives_each_device_a_row() {
    let shape = Shape::from([4, 3]);
    let rows = PmapSharding::default(&shape, Some(0), Some(&devices(4))).unwrap();
    assert_eq!(rows.spec().to_string(), "ShardingSpec((Chunked(4), NoSharding()), (ShardedAxis(axis=0),))");
    check(&rows, &shape);
    let copies = PmapSharding::default(&shape, None, Some(&devices(2))).unwrap();
    assert_eq!(
        copies.spec().to_string(),
        "ShardingSpec((NoSharding(), NoSharding()), (Replicated(replicas=2),))"
    );
    assert!(copies.is_fully_replicated());
    for shape in [Shape::from([]), Shape::from([7]), shape.clone()] {
        check(&copies, &shape);
    }
    let one = PmapSharding::default(&Shape::from([1, 3]), Some(0), Some(&devices(1))).unwrap();
    assert!(one.is_fully_replicated());

    // Devices of this process in the mesh in scope.
    let far: Vec<Device> = (0..8).map(|slot| Device::cpu().with_slot(slot).with_process(slot % 2)).collect();
    let scope = (*Scope::current()).clone().with_mesh(DeviceMesh::new(&far, [8], ["x"]).unwrap());
    let local = |process| {
        let default = || PmapSharding::default(&Shape::from([3, 4]), Some(1), None);
        scope.clone().with_process(process).enter(default).unwrap().devices().collect::<Vec<_>>()
    };
    assert_eq!(local(0), [far[0], far[2], far[4], far[6]]);
    assert_eq!(local(1), [far[1], far[3], far[5], far[7]]);
}

#[test]
fn what_has_no_rows_for_devices_is_refused() {
    let kind = |extents: &[usize], dim, n: Option<u32>| {
        let devices = n.map(devices);
        PmapSharding::default(&Shape::from(extents), dim, devices.as_deref()).unwrap_err().kind()
    };
    assert_eq!(kind(&[2, 3], None, None), ErrorKind::Argument);
    assert_eq!(kind(&[2, 3], None, Some(0)), ErrorKind::Mesh);
    assert_eq!(kind(&[], Some(0), Some(1)), ErrorKind::Axis);
    assert_eq!(kind(&[2, 3], Some(2), Some(2)), ErrorKind::Axis);
    assert_eq!(kind(&[0, 3], Some(0), Some(2)), ErrorKind::Shape);
    assert_eq!(kind(&[3, 3], Some(0), Some(2)), ErrorKind::Shape);
    assert_eq!(kind(&[2, 3], Some(0), Some(3)), ErrorKind::Shape);
    assert_eq!(kind(&[2, 3], Some(0), None), ErrorKind::Mesh);
    let rows = PmapSharding::default(&Shape::from([8, 4]), Some(0), Some(&devices(8))).unwrap();
    for extent in [4, 16, 0] {
        let error = rows.shard_shape(&Shape::from([extent, 4])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shape, "{error}");
    }
    assert_eq!(rows.shard_shape(&Shape::from([8])).unwrap_err().kind(), ErrorKind::Dimensions);
}

#[test]
fn a_spec_maps_each_chunk_axis_once() {
    use PmapMeshAxis::{Replicated, ShardedAxis};
    let spec = |mesh: &[PmapMeshAxis]| {
        let axes = [PmapAxis::Chunked(vec![2, 3]), PmapAxis::NoSharding, PmapAxis::Unstacked(4)];
        PmapSpec::new(axes, mesh.iter().copied()).map_err(|error| error.kind())
    };
    let whole = spec(&[ShardedAxis(2), Replicated(5), ShardedAxis(0), ShardedAxis(1)]).unwrap();
    assert_eq!(whole.mesh_shape(), [4, 5, 2, 3]);
    assert_eq!(spec(&[ShardedAxis(0), ShardedAxis(1)]), Err(ErrorKind::Mapping));
    assert_eq!(spec(&[ShardedAxis(0), ShardedAxis(1), ShardedAxis(1)]), Err(ErrorKind::Mapping));
    assert_eq!(spec(&[ShardedAxis(0), ShardedAxis(1), ShardedAxis(3)]), Err(ErrorKind::Mapping));
    let order = [ShardedAxis(0), ShardedAxis(1), ShardedAxis(2)];
    assert_eq!(spec(&[&order[..], &[Replicated(0)]].concat()), Err(ErrorKind::Mapping));
    assert_eq!(spec(&[&order[..], &[Replicated(usize::MAX)]].concat()), Err(ErrorKind::Overflow));
    let short = PmapSharding::new(&devices(3), whole).unwrap_err();
    assert_eq!(short.kind(), ErrorKind::Mapping);
}

#[test]
fn shards_lack_an_unstacked_axis() {
    let spec = |axis| PmapSpec::new([PmapAxis::NoSharding, axis], [PmapMeshAxis::ShardedAxis(0)]).unwrap();
    let stacked = PmapSharding::new(&devices(4), spec(PmapAxis::Chunked(vec![4]))).unwrap();
    let sharding = PmapSharding::new(&devices(4), spec(PmapAxis::Unstacked(4))).unwrap();
    let shape = Shape::from([3, 4]);
    assert_eq!(sharding.shard_shape(&shape).unwrap(), Shape::from([3]));
    assert_eq!(sharding.shard_shape_of(&shape, devices(4)[2]).unwrap(), Shape::from([3]));
    assert_eq!(regions(&sharding, &shape), regions(&stacked, &shape));
    assert!(
        !sharding.is_equivalent_to(&stacked, 2).unwrap() && sharding.is_equivalent_to(&sharding, 2).unwrap()
    );
    assert_eq!(GspmdSharding::try_from(&sharding).unwrap_err().kind(), ErrorKind::Conversion);
    let one = PmapSharding::new(&devices(1), spec(PmapAxis::Unstacked(1))).unwrap();
    assert!(!one.is_fully_replicated());
}
