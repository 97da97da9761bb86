//! Values survive every redistribution.

use crate::host::{APART, HOST};
use crate::{reference, value};
use proptest::prelude::*;
use sharding_core::placement::{Interleaved, Placement, PlacementKey, Ragged, Ranges, Transition};
use sharding_core::plan::VolumeCost;
use sharding_core::redistribute::Program;
use sharding_core::split::balanced;
use sharding_core::{
    BackendKind, DType, Device, DeviceMapping, DeviceMesh, MemoryKind, Place, ReduceOp, Result, Shape,
    Tensor, TensorLayout,
};

use std::collections::HashSet;
use std::sync::Arc;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Runs source to target and back; the value, and every local shape, must be what they say.
fn check(source: &TensorLayout, target: &TensorLayout, seed: u64) {
    let whole = value::random(source.shape().elements(), source.dtype(), seed);
    let tensor = value::place(source, &whole);
    assert_eq!(value::value(&tensor), whole, "the helper itself, {source}");
    let moved =
        tensor.transfer_to(target.mapping()).unwrap_or_else(|error| panic!("{source} to {target}: {error}"));
    assert_eq!(moved.layout(), target);
    let steps = || Program::search(source, target, &VolumeCost).unwrap().steps;
    assert_eq!(value::value(&moved), whole, "{source} to {target} by {:?}", steps());
    if source.mesh() == target.mesh() {
        let back = moved.transfer_to(source.mapping()).unwrap();
        assert_eq!(value::value(&back), whole, "back from {target} to {source}");
    }
    // The source is immutable: nothing wrote into it.
    assert_eq!(value::value(&tensor), whole);
}

/// Devices in reverse, and each holds the second half of its piece before the first: also where it is alone.
#[derive(Debug)]
pub(crate) struct Turned(pub(crate) usize);

impl Placement for Turned {
    fn key(&self) -> PlacementKey {
        PlacementKey { name: "test::Turned", words: [self.0 as u64].into_iter().collect() }
    }
    fn tensor_axis(&self) -> Option<usize> {
        Some(self.0)
    }
    fn on_axis(&self, tensor_axis: usize) -> Arc<dyn Placement> {
        Arc::new(Self(tensor_axis))
    }
    fn check(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }
    fn ranges(&self, extent: usize, ways: usize, part: usize) -> Ranges {
        let piece = balanced(extent, ways, ways - 1 - part);
        let middle = piece.start + piece.len() / 2;
        [middle..piece.end, piece.start..middle].into_iter().collect()
    }
    fn transition_to(&self, to: Place, _: usize, _: usize) -> Transition {
        Transition::between_splits(Place::Sharded(self.0 as u8), to)
    }
}

pub(crate) fn extents() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0_usize..7, 0..4)
}

fn sizes(extent: usize, ways: usize, cuts: &[usize]) -> Vec<usize> {
    let mut at: Vec<usize> = cuts.iter().take(ways - 1).map(|cut| cut % (extent + 1)).collect();
    at.sort_unstable();
    at.push(extent);
    let mut last = 0;
    at.into_iter().map(|cut| cut - std::mem::replace(&mut last, cut)).collect()
}

/// A placement from a few random words. Custom ones take a tensor axis for themselves.
fn place(
    words: &[usize],
    shape: &[usize],
    ways: usize,
    op: ReduceOp,
    taken: &mut Vec<(usize, bool)>,
) -> Place {
    let fallback = Place::Replicated;
    match words[0] % 8 {
        0 => Place::Partial(op),
        1 => fallback,
        kind if !shape.is_empty() => {
            let axis = words[1] % shape.len();
            let custom = kind >= 5;
            if taken.iter().any(|(other, alone)| *other == axis && (*alone || custom)) {
                return fallback;
            }
            let place = match kind {
                5 => Ragged::place(axis, sizes(shape[axis], ways, &words[2..])),
                7 => Place::custom(Turned(axis)),
                6 => Interleaved::place(axis, sizes(shape[axis], 1 + words[2] % 3, &words[3..])),
                _ => Place::Sharded(axis as u8),
            };
            taken.push((axis, matches!(place, Place::Custom(_))));
            place
        }
        _ => fallback,
    }
}

pub(crate) fn places(words: &[Vec<usize>], shape: &[usize], mesh: &[usize], op: ReduceOp) -> Vec<Place> {
    let mut taken = Vec::new();
    mesh.iter().zip(words).map(|(ways, words)| place(words, shape, *ways, op, &mut taken)).collect()
}

fn op(word: usize) -> ReduceOp {
    [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod][word % 4]
}

pub(crate) fn words() -> impl Strategy<Value = Vec<Vec<usize>>> {
    prop::collection::vec(prop::collection::vec(0_usize..1000, 6), 5)
}

pub(crate) fn lay(dtype: DType, shape: &[usize], mesh: &DeviceMesh, places: Vec<Place>) -> TensorLayout {
    TensorLayout::new(dtype, Shape::from(shape), DeviceMapping::new(mesh, places).unwrap()).unwrap()
}

fn dtype(word: usize) -> DType {
    [DType::F32, DType::I64, DType::Bool][word % 3]
}

/// Which slots the devices of a mesh are, and in which order.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    first: u32,
    /// Devices in the order of these; without any, as they are.
    keys: Vec<u8>,
}

/// In order or in any other, from one of the first few slots: of two meshes some devices are the same.
pub(crate) fn slots() -> impl Strategy<Value = Slots> {
    let keys = prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 72)];
    (0_u32..5, keys).prop_map(|(first, keys)| Slots { first, keys })
}

pub(crate) fn mesh_of(kind: BackendKind, sizes: &[usize], names: &[&str], slots: &Slots) -> DeviceMesh {
    let mut order: Vec<u32> = (0..sizes.iter().product::<usize>() as u32).collect();
    order.sort_by_key(|i| slots.keys.get(*i as usize));
    let devices: Vec<Device> =
        order.iter().map(|i| Device::new(kind, 0).with_slot(slots.first + i)).collect();
    DeviceMesh::new(&devices, sizes, names).unwrap()
}

/// The most bytes that a device of the target lacks of its piece, element by element.
fn lacked(source: &TensorLayout, target: &TensorLayout) -> usize {
    let has = |position: usize| -> HashSet<usize> {
        source
            .mesh()
            .position_of(target.mesh().device(position).unwrap())
            .map_or_else(HashSet::new, |own| value::held(source, own).into_iter().collect())
    };
    let lacks = |position: usize| {
        let has = has(position);
        value::held(target, position).iter().filter(|element| !has.contains(element)).count()
    };
    (0..target.mesh().num_devices()).map(lacks).max().unwrap() * source.dtype().size()
}

/// Meshes of up to five axes and 72 devices.
pub(crate) fn meshes() -> impl Strategy<Value = Vec<usize>> {
    let small = |sizes: &Vec<usize>| sizes.iter().product::<usize>() <= 72;
    prop::collection::vec(1_usize..5, 1..6).prop_filter("few devices", small)
}

/// These placements, with no parts of a sum.
pub(crate) fn whole(mut places: Vec<Place>) -> Vec<Place> {
    places.iter_mut().filter(|place| place.is_partial()).for_each(|place| *place = Place::Replicated);
    places
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn on_one_mesh(
        mesh in meshes(),
        shape in extents(),
        from in words(),
        to in words(),
        picks in prop::collection::vec(0_usize..12, 3),
        apart in any::<bool>(),
        slots in slots(),
        seed in any::<u64>(),
    ) {
        let kind = if apart { APART } else { HOST };
        let grid = mesh_of(kind, &mesh, &NAMES[..mesh.len()], &slots);
        let (before, after) = (op(picks[0]), op(picks[if picks[0] > 6 { 1 } else { 0 }]));
        let source = lay(dtype(picks[2]), &shape, &grid, places(&from, &shape, &mesh, before));
        let target = lay(dtype(picks[2]), &shape, &grid, places(&to, &shape, &mesh, after));
        check(&source, &target, seed);
    }

    #[test]
    fn between_meshes(
        mesh in prop::collection::vec(1_usize..4, 1..4),
        other in prop::collection::vec(1_usize..4, 1..4),
        alike in any::<bool>(),
        shape in extents(),
        from in words(),
        to in words(),
        picks in prop::collection::vec(0_usize..12, 2),
        kinds in (any::<bool>(), any::<bool>()),
        slots in (slots(), slots()),
        seed in any::<u64>(),
    ) {
        let kind = |apart: bool| if apart { APART } else { HOST };
        let other = if alike { mesh.clone() } else { other };
        let a = mesh_of(kind(kinds.0), &mesh, &NAMES[..mesh.len()], &slots.0);
        let b = mesh_of(kind(kinds.1), &other, &["x", "y", "z"][..other.len()], &slots.1);
        let mut goal = places(&to, &shape, &other, op(picks[0]));
        if other != mesh {
            for place in &mut goal {
                if place.is_partial() {
                    *place = Place::Replicated;
                }
            }
        }
        let source = lay(dtype(picks[1]), &shape, &a, places(&from, &shape, &mesh, op(picks[0])));
        let target = lay(dtype(picks[1]), &shape, &b, goal);
        check(&source, &target, seed);
        // Of other meshes only what devices lack moves.
        let program = Program::search(&source, &target, &VolumeCost).unwrap();
        if other != mesh && let [step] = &program.steps[..] {
            prop_assert_eq!(step.cost, lacked(&source, &target) as f64, "{} to {}: {}", source, target, step);
        }
    }

    #[test]
    fn never_dearer_than_the_reference_on_odd_meshes(
        mesh in prop::collection::vec(1_usize..6, 1..6),
        shape in prop::collection::vec(0_usize..40, 1..4),
        from in words(),
        to in words(),
    ) {
        let grid = DeviceMesh::simulated(HOST, &mesh, &NAMES[..mesh.len()]).unwrap();
        let plain = |words: &[Vec<usize>]| {
            let mut places = places(words, &shape, &mesh, ReduceOp::Sum);
            for place in &mut places {
                if matches!(place, Place::Custom(_)) {
                    *place = Place::Sharded((shape.len() - 1) as u8);
                }
            }
            lay(DType::F32, &shape, &grid, places)
        };
        let (source, target) = (plain(&from), plain(&to));
        let program = Program::search(&source, &target, &VolumeCost).unwrap();
        let limit = reference::price(&source, &target);
        prop_assert!(program.cost <= limit * (1.0 + 1e-9), "{} > {limit}: {:?}", program.cost, program.steps);
    }
}

fn tensor(kind: BackendKind, mesh: &[usize], shape: &[usize], places: &[Place]) -> Tensor {
    let grid = DeviceMesh::simulated(kind, mesh, &NAMES[..mesh.len()]).unwrap();
    let layout = lay(DType::F32, shape, &grid, places.to_vec());
    value::place(&layout, &value::random(layout.shape().elements(), DType::F32, 7))
}

#[test]
fn replicas_share_one_result() {
    let check = |from: Place, to: Place, shared: usize| {
        let moved = tensor(HOST, &[4], &[8, 8], &[from]);
        let mapping = DeviceMapping::new(moved.mesh(), [to]).unwrap();
        let moved = moved.transfer_to(&mapping).unwrap();
        let first = &moved.shards()[0];
        let same = moved.shards().iter().filter(|shard| Arc::ptr_eq(shard.storage(), first.storage()));
        assert_eq!(same.count(), shared, "{from} to {to}");
    };
    check(Place::PARTIAL, Place::Replicated, 4);
    check(Place::Sharded(1), Place::Replicated, 4);
    check(Place::PARTIAL, Place::Sharded(0), 1);
}

#[test]
fn slices_of_one_buffer_are_joined_again_without_a_copy() {
    let whole = tensor(HOST, &[4], &[8, 8], &[Place::Replicated]);
    let mapping = |place: Place| DeviceMapping::new(whole.mesh(), [place]).unwrap();
    let replicated = whole.transfer_to(&mapping(Place::Sharded(1))).unwrap();
    // Every device had a buffer of its own here: joined by a copy.
    let one = replicated.transfer_to(&mapping(Place::Replicated)).unwrap();
    let again = one.transfer_to(&mapping(Place::Sharded(1))).unwrap();
    let two = again.transfer_to(&mapping(Place::Replicated)).unwrap();
    assert!(Arc::ptr_eq(one.shards()[0].storage(), two.shards()[3].storage()));
    assert!(two.shards()[3].is_contiguous());
}

#[test]
fn pieces_that_only_change_their_device_are_passed_on() {
    let a = tensor(HOST, &[2, 2], &[8, 8], &[Place::Sharded(0), Place::Sharded(1)]);
    let mapping = DeviceMapping::new(a.mesh(), [Place::Sharded(1), Place::Sharded(0)]).unwrap();
    let b = a.transfer_to(&mapping).unwrap();
    for (mine, theirs) in [(0, 0), (1, 2), (2, 1), (3, 3)] {
        assert!(a.shards()[mine].same_as(&b.shards()[theirs]));
    }
}

#[test]
fn unknown_shards_of_any_shape_move_between_meshes() {
    let a = DeviceMesh::simulated(APART, [2], ["a"]).unwrap();
    let b = DeviceMesh::simulated(HOST, [2], ["b"]).unwrap();
    let source = lay(DType::I64, &[3], &a, vec![Place::Unknown]);
    let tensor = value::place(&source, &vec![1, 2, 3]);
    let moved = tensor.transfer_to(&DeviceMapping::new(&b, [Place::Unknown]).unwrap()).unwrap();
    assert_eq!(moved.shard_to_vec::<i64>(0).unwrap(), [1, 2, 3]);
    assert_eq!(moved.shard_to_vec::<i64>(1).unwrap(), [1001, 1002, 1003]);
}

/// Once a mesh axis is Partial as it is to be, its parts are of the target's operation: they must not be summed to be cut
/// finer, though a way over that would hold little and cost little.
#[test]
fn parts_of_the_target_are_not_combined() {
    let mesh = |first| mesh_of(HOST, &[2, 2], &["a", "b"], &Slots { first, keys: Vec::new() });
    let max = Place::Partial(ReduceOp::Max);
    for first in [1, 4] {
        let source = lay(DType::I64, &[9, 12, 8, 1], &mesh(0), vec![Place::Sharded(3), Place::PARTIAL]);
        check(&source, &lay(DType::I64, &[9, 12, 8, 1], &mesh(first), vec![max, Place::Sharded(0)]), 3);
    }
}

#[test]
fn sums_follow_the_tree() {
    // In this order of additions, and in no other, the result is 2: ((1e8 + 1) + -1e8) + (1 + 1).
    let mesh = DeviceMesh::simulated(APART, [5], ["a"]).unwrap();
    let layout = lay(DType::F32, &[1], &mesh, vec![Place::PARTIAL]);
    let backend = sharding_core::backend::backend_of(APART).unwrap();
    let mut shards = sharding_core::backend::LocalArrays::new();
    for (i, value) in [1.0e8_f32, 1.0, -1.0e8, 1.0, 1.0].into_iter().enumerate() {
        let mut shard = backend.alloc(mesh.device(i).unwrap(), DType::F32, &Shape::from([1])).unwrap();
        backend.write(&value.to_ne_bytes(), &mut shard).unwrap();
        shards.push(shard);
    }
    let tensor = Tensor::from_shards(layout, (0..5).collect(), shards).unwrap();
    assert_eq!(tensor.to_vec::<f32>().unwrap(), [2.0]);
    let many = DeviceMesh::simulated(HOST, [19], ["a"]).unwrap();
    let layout = lay(DType::I64, &[3], &many, vec![Place::PARTIAL]);
    check(&layout, &layout.with_mapping(DeviceMapping::replicated(&many)).unwrap(), 3);
}

#[test]
fn memory_kinds_and_single_devices() {
    let mesh = DeviceMesh::simulated(HOST, [2, 2], ["a", "b"]).unwrap();
    let one = DeviceMesh::single(Device::new(HOST, 0));
    let whole = lay(DType::F32, &[7, 5], &one, vec![Place::Replicated]);
    for places in [[Place::Sharded(0), Place::Sharded(1)], [Place::Sharded(0), Place::Sharded(0)]] {
        let spread = lay(DType::F32, &[7, 5], &mesh, places.to_vec());
        check(&whole, &spread, 1);
        check(&spread, &whole, 2);
        let pinned = spread.mapping().clone().with_memory_kind(MemoryKind::PinnedHost);
        check(&spread, &spread.with_mapping(pinned).unwrap(), 3);
    }
    check(&lay(DType::F32, &[7, 5], &mesh, vec![Place::PARTIAL, Place::PARTIAL]), &whole, 4);
}

#[test]
fn readers_of_another_dtype_name_themselves() {
    let x = tensor(HOST, &[2], &[4], &[Place::Sharded(0)]);
    let errors = [x.to_vec::<i64>().unwrap_err(), x.shard_to_vec::<i64>(0).unwrap_err()];
    assert_eq!(errors.each_ref().map(|error| error.op()), [Some("to_vec"), Some("shard_to_vec")]);
    assert!(errors.iter().all(|error| error.to_string().contains(&x.layout().to_string())), "{errors:?}");
}
