//! What a device holds while a tensor is redistributed, counted by the storages that live on it.

use crate::host::{ALONE, peak};
use crate::value;
use proptest::prelude::*;
use sharding_core::plan::VolumeCost;
use sharding_core::redistribute::Program;
use sharding_core::{DType, DeviceMapping, DeviceMesh, Place, Shape, TensorLayout};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn lay(mesh: &DeviceMesh, shape: &[usize], places: &[Place]) -> TensorLayout {
    TensorLayout::new(DType::F32, Shape::from(shape), DeviceMapping::new(mesh, places).unwrap()).unwrap()
}

/// While it moves, a device holds the source piece that the caller keeps, and beside it what is known to be enough
/// (arXiv 2112.01075): as much as the larger of source and target piece, and one message, which is no larger. Where the
/// program has one or two steps: its source piece, its target piece and one message.
fn check(source: &TensorLayout, target: &TensorLayout) {
    let tensor = value::place(source, &value::random(source.shape().elements(), DType::F32, 5));
    let devices = source.mesh().num_devices();
    for position in [0, devices / 2, devices - 1] {
        let bytes = |layout: &TensorLayout| layout.local_shape(position).elements() * 4;
        let (from, to) = (bytes(source), bytes(target));
        let largest =
            |layout: &TensorLayout| (0..devices).map(|p| layout.local_shape(p).elements() * 4).max().unwrap();
        let message = largest(source).max(largest(target));
        let slot = source.mesh().device(position).unwrap().slot;
        let (moved, peak) = peak(slot, || tensor.transfer_to(target.mapping()).unwrap());
        let steps = Program::search(source, target, &VolumeCost).unwrap().steps;
        let enough = if steps.len() > 2 { from + 2 * message } else { from + to + message };
        assert!(
            peak <= enough,
            "{source} to {target}: device {position} held {peak}, with {from} before, {to} after and {message} in flight: {steps:?}"
        );
        drop(moved);
    }
}

fn places(mesh_axes: usize, options: &[Place]) -> Vec<Vec<Place>> {
    (0..mesh_axes).fold(vec![vec![]], |all, _| {
        let longer = |places: &Vec<Place>| {
            options.iter().map(|p| places.iter().copied().chain([*p]).collect()).collect::<Vec<_>>()
        };
        all.iter().flat_map(longer).collect()
    })
}

#[test]
fn source_target_and_one_buffer() {
    let options = [Place::Replicated, Place::PARTIAL, Place::Sharded(0), Place::Sharded(1)];
    for sizes in [&[4][..], &[2, 2], &[2, 4]] {
        let mesh = DeviceMesh::simulated(ALONE, sizes, &NAMES[..sizes.len()]).unwrap();
        let all = places(sizes.len(), &options);
        for (from, to) in all.iter().flat_map(|from| all.iter().map(move |to| (from, to))) {
            check(&lay(&mesh, &[16, 8], from), &lay(&mesh, &[16, 8], to));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn on_up_to_five_axes(
        sizes in prop::collection::vec(1_usize..3, 1..6),
        words in prop::collection::vec((0_usize..4, 0_usize..4), 5),
    ) {
        let place = |word: usize| match word {
            0 => Place::Replicated,
            1 => Place::PARTIAL,
            word => Place::Sharded(word as u8 - 2),
        };
        let mesh = DeviceMesh::simulated(ALONE, &sizes, &NAMES[..sizes.len()]).unwrap();
        let side = |pick: fn(&(usize, usize)) -> usize| -> Vec<Place> {
            words.iter().take(sizes.len()).map(|pair| place(pick(pair))).collect()
        };
        // All cuts are even.
        let n = mesh.num_devices();
        check(&lay(&mesh, &[n, n], &side(|pair| pair.0)), &lay(&mesh, &[n, n], &side(|pair| pair.1)));
    }
}
