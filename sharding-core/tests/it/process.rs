//! Tensors whose pieces a callback brings, and the memory that they take.

use crate::host::{APART, HOST};
use proptest::prelude::*;
use sharding_core::placement::{Interleaved, Ragged};
use sharding_core::{
    BackendKind, DType, DeviceMapping, DeviceMesh, Element, Error, ErrorKind, Place, Region, Shape, Tensor,
    TensorLayout,
};
use std::collections::BTreeSet;

/// The flat indices of a region's elements, row-major.
fn flat(shape: &Shape, region: &Region) -> Vec<i64> {
    let mut flat = vec![0];
    for (extent, ranges) in shape.iter().zip(region) {
        flat = flat
            .iter()
            .flat_map(|start| {
                ranges.iter().cloned().flatten().map(move |i| start * *extent as i64 + i as i64)
            })
            .collect();
    }
    flat
}

/// Makes the tensor whose elements are their flat indices; gives the regions that were asked for.
fn numbered(
    kind: BackendKind,
    sizes: [usize; 2],
    shape: &Shape,
    places: [Place; 2],
) -> (Tensor, Vec<Region>) {
    let mesh = DeviceMesh::simulated(kind, sizes, ["x", "y"]).unwrap();
    let mapping = DeviceMapping::new(&mesh, places).unwrap();
    let layout = TensorLayout::new(DType::I64, shape.clone(), mapping).unwrap();
    let mut asked = Vec::new();
    let made = Tensor::from_callback(layout, |region, bytes| {
        assert!(bytes.iter().all(|byte| *byte == 0), "the room has something in it");
        bytes.copy_from_slice(&i64::to_bytes(&flat(shape, region)));
        asked.push(region.clone());
        Ok(())
    });
    (made.unwrap(), asked)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_slice_is_asked_for_once_and_lies_where_it_belongs(
        sizes in [1_usize..4, 1_usize..4],
        shape in [0_usize..6, 0_usize..6],
        axes in [0_usize..4, 0_usize..4],
        apart in any::<bool>(),
    ) {
        let shape = Shape::from(shape);
        let place = |i: usize| match axes[i] {
            0 => Place::Replicated,
            // All on the first device: a placement of its own, and empty pieces.
            3 if axes[1 - i] == 0 => {
                let mut all = vec![0; sizes[i]];
                all[0] = shape[0];
                Ragged::place(0, all)
            }
            3 => Place::Replicated,
            axis => Place::Sharded(axis as u8 - 1),
        };
        let places = [place(0), place(1)];
        let (x, asked) = numbered(if apart { APART } else { HOST }, sizes, &shape, places);
        let regions: BTreeSet<String> = x.positions().iter().map(|p| format!("{:?}", x.layout().region(*p))).collect();
        prop_assert_eq!(asked.len(), regions.len());
        for position in x.positions().iter() {
            let want = flat(&shape, &x.layout().region(*position));
            prop_assert_eq!(x.shard_to_vec::<i64>(*position).unwrap(), want);
        }
        let whole: Vec<i64> = (0..shape.elements() as i64).collect();
        let same = Tensor::from_slice(&whole, shape.clone(), x.mapping()).unwrap();
        for position in x.positions().iter() {
            prop_assert_eq!(same.shard_to_vec::<i64>(*position).unwrap(), x.shard_to_vec::<i64>(*position).unwrap());
        }
    }
}

#[test]
fn replicas_share_a_storage_where_memory_is_shared() {
    let storages = |x: &Tensor| {
        x.shards().iter().map(|shard| std::sync::Arc::as_ptr(shard.storage()).addr()).collect::<BTreeSet<_>>()
    };
    let places = [Place::Replicated, Place::Sharded(0)];
    let (x, asked) = numbered(HOST, [3, 2], &[4].into(), places);
    assert_eq!((storages(&x).len(), asked.len()), (2, 2));
    // Slots 0, 1, 2 share memory, and 3, 4, 5: a slice that lies on both sides is asked for once and stored twice.
    let (x, asked) = numbered(APART, [3, 2], &[4].into(), places);
    assert_eq!((storages(&x).len(), asked.len()), (4, 2));
}

#[test]
fn ranges_come_in_the_order_of_the_shard() {
    let fused = Place::custom(Interleaved::new(0, [4, 4]));
    let (x, asked) = numbered(HOST, [2, 1], &[8].into(), [fused, Place::Replicated]);
    assert_eq!(x.shard_to_vec::<i64>(0).unwrap(), [0, 1, 4, 5]);
    assert_eq!(format!("{:?}", asked[1]), "[[2..4, 6..8]]");
}

fn layout(places: [Place; 1]) -> TensorLayout {
    let mesh = DeviceMesh::simulated(HOST, [2], ["tp"]).unwrap();
    TensorLayout::new(DType::F32, [4], DeviceMapping::new(&mesh, places).unwrap()).unwrap()
}

#[test]
fn what_has_no_place_on_a_device_is_refused_unasked() {
    for place in [Place::PARTIAL, Place::Unknown] {
        let refused = Tensor::from_callback(layout([place]), |_, _| panic!("asked"));
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), error.op()), (ErrorKind::Mapping, Some("from_callback")));
    }
}

#[test]
fn an_error_of_the_callback_comes_through_and_a_panic_is_one() {
    let mut asked = 0;
    let failed = Tensor::from_callback(layout([Place::Sharded(0)]), |_, _| {
        asked += 1;
        Err(Error::new(ErrorKind::Argument, "the disk is on fire"))
    });
    let error = failed.unwrap_err();
    assert_eq!((error.kind(), asked), (ErrorKind::Argument, 1));
    let text = error.to_string();
    assert!(
        text.contains("the disk is on fire") && text.contains("value: f32[4] {tp: Sharded(0)}"),
        "{text}"
    );
    let error = Tensor::from_callback(layout([Place::Sharded(0)]), |_, _| panic!("oh")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Kernel);
    assert!(error.to_string().contains("the callback of from_callback panicked: oh"), "{error}");
}

#[test]
fn a_mesh_says_what_its_devices_hold() {
    // Slots that no other test uses.
    let devices = [7001, 7002].map(|slot| sharding_core::Device::new(HOST, 0).with_slot(slot));
    let mesh = DeviceMesh::new(&devices, [2], ["tp"]).unwrap();
    let of = |mesh: &DeviceMesh| {
        mesh.memory().unwrap().iter().map(|(_, memory)| (memory.live, memory.peak)).collect::<Vec<_>>()
    };
    let mapping = DeviceMapping::new(&mesh, [Place::Sharded(0)]).unwrap();
    let x = Tensor::from_slice(&[0_f32; 3], [3], &mapping).unwrap();
    assert_eq!(of(&mesh), [(8, 8), (4, 4)]);
    let shared = Tensor::from_slice(&[0_f32; 3], [3], &DeviceMapping::replicated(&mesh)).unwrap();
    assert_eq!(of(&mesh), [(20, 20), (4, 4)]);
    drop((x, shared));
    assert_eq!(of(&mesh), [(0, 20), (0, 4)]);
    mesh.reset_peak_memory().unwrap();
    assert_eq!(of(&mesh), [(0, 0), (0, 0)]);
    assert_eq!(devices[0].memory().unwrap().peak, 0);
}
