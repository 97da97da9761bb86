//! Which programs the search finds, and what they cost.

use crate::host::HOST;
use crate::reference;
use sharding_core::placement::{Placement, PlacementKey, Ranges, Transition};
use sharding_core::plan::{AlphaBetaCost, CostModel, CostUnit, StepQuery, VolumeCost, fabric};
use sharding_core::redistribute::Program;
use sharding_core::split::balanced;
use sharding_core::{
    DType, DeviceMapping, DeviceMesh, ErrorKind, MemoryKind, Place, ReduceOp, Result, Shape, TensorLayout,
};
use std::sync::Arc;

const R: Place = Place::Replicated;
const P: Place = Place::PARTIAL;
const U: Place = Place::Unknown;
const S0: Place = Place::Sharded(0);
const S1: Place = Place::Sharded(1);
const S2: Place = Place::Sharded(2);
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn mesh(shape: &[usize]) -> DeviceMesh {
    DeviceMesh::simulated(HOST, shape, &NAMES[..shape.len()]).unwrap()
}

fn lay(mesh: &DeviceMesh, shape: &[usize], places: &[Place]) -> TensorLayout {
    TensorLayout::new(DType::F32, Shape::from(shape), DeviceMapping::new(mesh, places).unwrap()).unwrap()
}

/// The steps as `collective(axes)`, in order.
fn steps(mesh_shape: &[usize], shape: &[usize], from: &[Place], to: &[Place]) -> Vec<String> {
    let mesh = mesh(mesh_shape);
    let program = Program::search(&lay(&mesh, shape, from), &lay(&mesh, shape, to), &VolumeCost).unwrap();
    let step = |step: &sharding_core::backend::Step| {
        let axes: Vec<&str> = step.axis_names().collect();
        format!("{}({})", step.kind.name(), axes.join(","))
    };
    program.steps.iter().map(step).collect()
}

#[test]
fn one_step_where_one_does() {
    let check = |shape: &[usize], from: &[Place], to: &[Place], want: &[&str]| {
        assert_eq!(steps(&[2, 2], shape, from, to), want, "{from:?} to {to:?} of {shape:?}");
    };
    let nest: &[usize] = &[8, 8];
    check(nest, &[R, R], &[R, R], &[]);
    check(nest, &[R, R], &[S0, S1], &["local_slice(a,b)"]);
    check(nest, &[S0, S1], &[R, R], &["all_gather(a,b)"]);
    check(nest, &[P, P], &[R, R], &["all_reduce(a,b)"]);
    check(nest, &[P, P], &[S1, S0], &["reduce_scatter(a,b)"]);
    check(nest, &[R, R], &[P, P], &["keep_one_copy(a,b)"]);
    check(nest, &[S0, R], &[P, P], &["keep_one_copy(a,b)"]);
    check(nest, &[S0, S1], &[S1, S0], &["all_to_all(a,b)"]);
    check(nest, &[S0, R], &[S1, R], &["all_to_all(a)"]);
    check(nest, &[S0, P], &[S0, S0], &["reduce_scatter(b)"]);
    check(nest, &[S0, R], &[R, S0], &["permute(a,b)"]);
    check(nest, &[S0, S0], &[S0, S1], &["all_to_all(b)"]);
    check(nest, &[U, S0], &[U, S1], &["all_to_all(b)"]);
    check(nest, &[P, S0], &[S1, R], &["reduce_scatter(a)", "all_gather(b)"]);
    // 10 rows are 5, 5 over the first axis and 3, 3, 2, 2 over both: the row between 5 and 6 crosses.
    let cross: &[usize] = &[10, 8];
    check(cross, &[S0, R], &[S0, S0], &["permute(a,b)"]);
    check(cross, &[S0, S0], &[S0, R], &["permute(a,b)"]);
    check(cross, &[R, R], &[S0, S0], &["local_slice(a,b)"]);
    check(cross, &[P, P], &[S0, S0], &["reduce_scatter(a,b)"]);
}

#[test]
fn a_boundary_row_is_all_that_crosses() {
    let mesh = mesh(&[2, 2]);
    let (from, to) = (lay(&mesh, &[10, 8], &[S0, R]), lay(&mesh, &[10, 8], &[S0, S0]));
    assert_eq!(Program::search(&from, &to, &VolumeCost).unwrap().cost, 8.0 * 4.0);
}

#[test]
fn an_axis_of_size_one_is_renamed() {
    assert_eq!(steps(&[2, 1], &[8, 8], &[S0, S1], &[S0, P]), ["relabel(b)"]);
    assert_eq!(steps(&[2, 1], &[8, 8], &[P, P], &[R, Place::Partial(ReduceOp::Max)]).len(), 3);
    assert_eq!(steps(&[2, 1], &[8, 8], &[P, S0], &[R, R]), ["relabel(b)", "all_reduce(a)"]);
}

#[test]
fn parts_are_combined_before_they_are_parts_of_another_op() {
    let max = Place::Partial(ReduceOp::Max);
    // A piece on every device is a part as good as the whole on one.
    assert_eq!(steps(&[2, 2], &[8, 8], &[P, P], &[max, max]), ["reduce_scatter(a,b)", "keep_one_copy(a,b)"]);
    assert_eq!(steps(&[2], &[8, 8], &[P], &[max]), ["reduce_scatter(a)", "keep_one_copy(a)"]);
    // Nothing divides these evenly.
    assert_eq!(steps(&[2, 2], &[7, 5], &[P, P], &[max, max]), ["reduce_scatter(a,b)", "keep_one_copy(a,b)"]);
    let shared = ["local_slice(b)", "all_reduce(a)", "keep_one_copy(b)"];
    assert_eq!(steps(&[2, 2], &[8, 8], &[P, R], &[R, max]), shared);
}

/// A piece for each of two devices, the first half on the second; asked for other numbers of pieces it panics.
#[derive(Debug)]
struct Halves(usize);

impl Placement for Halves {
    fn key(&self) -> PlacementKey {
        PlacementKey { name: "test::Halves", words: [self.0 as u64].into_iter().collect() }
    }
    fn tensor_axis(&self) -> Option<usize> {
        Some(self.0)
    }
    fn on_axis(&self, tensor_axis: usize) -> Arc<dyn Placement> {
        Arc::new(Self(tensor_axis))
    }
    fn check(&self, _: usize, ways: usize) -> Result<()> {
        assert_eq!(ways, 2);
        Ok(())
    }
    fn ranges(&self, extent: usize, ways: usize, part: usize) -> Ranges {
        assert_eq!(ways, 2);
        std::iter::once(balanced(extent, 2, 1 - part)).collect()
    }
    fn transition_to(&self, to: Place, _: usize, _: usize) -> Transition {
        Transition::between_splits(Place::Sharded(self.0 as u8), to)
    }
}

/// No state on the way is one that no mapping can have, with and without a bound of the rest of a way: parts of two ops, and a
/// placement of the open trait beside another split of its tensor axis, which then is asked for pieces that it does not have.
#[test]
fn states_on_the_way_are_mappings() {
    let mesh = mesh(&[2, 2, 2]);
    let seconds = AlphaBetaCost::new(fabric::NVLINK_4.link).unwrap();
    let options = [R, S0, S1, P, Place::Partial(ReduceOp::Max), Place::custom(Halves(0))];
    let triples = (0..216).map(|i| [options[i / 36], options[i / 6 % 6], options[i % 6]]);
    let mappings = triples.filter_map(|places| DeviceMapping::new(&mesh, places).ok());
    let layouts: Vec<_> =
        mappings.filter_map(|mapping| TensorLayout::new(DType::F32, [7, 3], mapping).ok()).collect();
    assert!(layouts.len() > 100, "{}", layouts.len());
    let models: [&dyn CostModel; 2] = [&VolumeCost, &seconds];
    let pairs = layouts.iter().flat_map(|from| layouts.iter().map(move |to| (from, to)));
    for ((source, target), cost) in pairs.flat_map(|pair| models.map(|cost| (pair, cost))) {
        let program = Program::search(source, target, cost)
            .unwrap_or_else(|error| panic!("{source} to {target}: {error}"));
        assert!(program.steps.last().is_none_or(|step| step.target == *target), "{source} to {target}");
    }
}

/// Counts bytes, and forbids steps of some names.
#[derive(Debug)]
struct Without([&'static str; 2]);

impl CostModel for Without {
    fn key(&self) -> u64 {
        1
    }
    fn unit(&self) -> CostUnit {
        CostUnit::Bytes
    }
    fn transition(&self, transition: Transition, bytes: f64, mesh: &DeviceMesh, axis: usize) -> f64 {
        VolumeCost.transition(transition, bytes, mesh, axis)
    }
    fn step(&self, query: &StepQuery<'_>) -> f64 {
        if self.0.contains(&query.kind.name()) { f64::INFINITY } else { VolumeCost.step(query) }
    }
}

/// Where collectives are forbidden the way may go by any other tensor axis.
#[test]
fn a_way_around_what_is_forbidden() {
    let check =
        |sizes: &[usize], extents: &[usize], from: [Place; 2], to: [Place; 2], without, want: &[&str]| {
            let mesh = mesh(sizes);
            let program =
                Program::search(&lay(&mesh, extents, &from), &lay(&mesh, extents, &to), &Without(without))
                    .unwrap();
            let kinds: Vec<_> = program.steps.iter().map(|step| step.kind.name()).collect();
            assert_eq!(kinds, want, "{from:?} to {to:?}");
        };
    let without = ["all_gather", "all_to_all"];
    check(&[2, 2], &[4, 2], [R, S1], [P, R], without, &["permute", "permute", "keep_one_copy"]);
    let without = ["all_gather", "all_reduce"];
    check(&[2, 3], &[9, 22], [P, S0], [R, S1], without, &["reduce_scatter", "permute"]);
}

#[test]
fn unknown_stays_unknown() {
    let two = mesh(&[2, 1]);
    let other = DeviceMesh::simulated(HOST, [4], ["x"]).unwrap();
    let check = |source: &TensorLayout, target: &TensorLayout, text: &str| {
        let error = Program::search(source, target, &VolumeCost).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sharding, "{error}");
        assert!(error.to_string().contains(text) && error.fix().is_some(), "{error}");
    };
    let on = |places: &[Place]| lay(&two, &[4, 4], places);
    check(&on(&[U, R]), &on(&[R, R]), "rebind_mapping");
    check(&on(&[S0, R]), &on(&[U, R]), "rebind_mapping");
    check(&on(&[S0, S1]), &on(&[S0, U]), "rebind_mapping");
    check(&on(&[S0, U]), &lay(&other, &[4, 4], &[R]), "rebind_mapping");
    check(&on(&[S0, R]), &lay(&other, &[4, 4], &[P]), "Partial(sum)");
    let one = DeviceMesh::single(sharding_core::Device::new(HOST, 0));
    check(&lay(&one, &[4, 4], &[R]), &lay(&other, &[4, 4], &[P]), "one device");
    check(&lay(&one, &[4, 4], &[R]), &lay(&other, &[4, 4], &[U]), "Unknown");
}

#[test]
fn another_memory_is_a_move() {
    let mesh = mesh(&[2]);
    let source = lay(&mesh, &[4, 4], &[S0]);
    let target = DeviceMapping::new(&mesh, [R]).unwrap().with_memory_kind(MemoryKind::PinnedHost);
    let target = source.with_mapping(target).unwrap();
    let program = Program::search(&source, &target, &VolumeCost).unwrap();
    let kinds: Vec<&str> = program.steps.iter().map(|step| step.kind.name()).collect();
    assert_eq!(kinds, ["all_gather", "move"]);
    assert_eq!(program.steps[1].target, target);
}

/// All ways to place a tensor of `tensor_axes` axes on a mesh.
fn all_places(mesh_axes: usize, tensor_axes: usize) -> Vec<Vec<Place>> {
    let one = [R, P, S0, S1, S2];
    let one = &one[..2 + tensor_axes];
    (0..mesh_axes).fold(vec![vec![]], |all, _| {
        all.iter()
            .flat_map(|places: &Vec<Place>| {
                one.iter().map(move |place| places.iter().copied().chain([*place]).collect())
            })
            .collect()
    })
}

/// Steps join, nothing on the way holds more than it may, and the price is at most the reference's.
fn check_program(source: &TensorLayout, target: &TensorLayout) {
    let program = Program::search(source, target, &VolumeCost).unwrap();
    let limit = reference::price(source, target);
    assert!(
        program.cost <= limit * (1.0 + 1e-9),
        "{source} to {target}: {} is more than the reference's {limit}: {:?}",
        program.cost,
        program.steps
    );
    let held = |layout: &TensorLayout| {
        (0..layout.mesh().num_devices()).map(|p| layout.local_shape(p).elements()).max().unwrap()
    };
    let most = held(source).max(held(target));
    let mut at = source;
    for step in &program.steps {
        assert_eq!(step.source, *at);
        at = &step.target;
        let even = [source, target].iter().all(|layout| {
            let ways = |t: usize| {
                layout.mapping().split_by(t).map(|axis| layout.mesh().size(axis)).product::<usize>()
            };
            layout.shape().iter().enumerate().all(|(t, extent)| extent % ways(t) == 0)
        });
        // Where cuts are uneven, Replicated on the way beside a mesh axis on which source or target hold the whole.
        let whole = |layout: &TensorLayout| layout.places().iter().any(|place| place.tensor_axis().is_none());
        let excused = !even && (whole(source) || whole(target));
        assert!(excused || held(at) <= most, "{source} to {target} holds too much at {at}");
    }
    assert_eq!(at, target);
}

#[test]
fn never_dearer_than_the_reference() {
    let meshes: [&[usize]; 7] = [&[2], &[3], &[4], &[2, 2], &[2, 3], &[2, 4], &[2, 2, 2]];
    for shape in meshes {
        let mesh = mesh(shape);
        for extents in [[8, 8], [24, 24], [5, 7], [10, 9], [1, 3], [2, 11], [7, 0]] {
            let layouts: Vec<TensorLayout> =
                all_places(shape.len(), 2).iter().map(|places| lay(&mesh, &extents, places)).collect();
            for source in &layouts {
                for target in &layouts {
                    check_program(source, target);
                }
            }
        }
    }
}

#[test]
fn a_million_devices_are_planned_by_their_axes() {
    let mesh = mesh(&[1024, 1024]);
    let check = |shape: &[usize], from: &[Place], to: &[Place], want: &[&str], cost: f64| {
        let program = Program::search(&lay(&mesh, shape, from), &lay(&mesh, shape, to), &VolumeCost).unwrap();
        let kinds: Vec<&str> = program.steps.iter().map(|step| step.kind.name()).collect();
        assert_eq!(kinds, want, "{from:?} to {to:?} of {shape:?}");
        assert_eq!(program.cost, cost, "{from:?} to {to:?} of {shape:?}");
    };
    let (rows, columns) = (1 << 20, 1 << 12);
    let bytes = 4.0 * (1_u64 << 32) as f64;
    check(&[rows, columns], &[P, R], &[R, R], &["all_reduce"], 2.0 * bytes * 1023.0 / 1024.0);
    check(&[rows, columns], &[S0, R], &[S0, S0], &["local_slice"], bytes / (1 << 20) as f64 / 64.0);
    // Three rows more: the last device of the first group has row 1026, which lies in the second group; all devices have
    // one row each from there on.
    check(&[rows + 3, columns], &[S0, R], &[S0, S0], &["permute"], 4.0 * columns as f64);
}
