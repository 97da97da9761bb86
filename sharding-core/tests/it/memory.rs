//! What a device holds while a tensor is redistributed, counted by the storages that live on it.

use crate::host::{ALONE, HOST, peak};
use crate::oracle::Oracle;
use crate::transfer::Turned;
use crate::{reference, value};
use proptest::prelude::*;
use sharding_core::backend::{Step, StepKind};
use sharding_core::placement::{Interleaved, Ragged, Transition};
use sharding_core::plan::{AlphaBetaCost, CostModel, CostUnit, StepQuery, VolumeCost, fabric};
use sharding_core::redistribute::Program;
use sharding_core::{DType, DeviceMapping, DeviceMesh, Place, Shape, TensorLayout};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn lay(mesh: &DeviceMesh, shape: &[usize], places: &[Place]) -> TensorLayout {
    TensorLayout::new(DType::F32, Shape::from(shape), DeviceMapping::new(mesh, places).unwrap()).unwrap()
}

/// While it moves, a device holds the source piece that the caller keeps, and beside it what is known to be enough
/// (arXiv 2112.01075): as much as the larger of source and target piece, and one message, which is no larger. Where the
/// program has one step or two: its source piece, its target piece and one message. A sum that follows an exchange needs a
/// piece more where devices cannot read each other's memory: what it reads has to land beside what the exchange made.
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
        let sums = |step: &Step| matches!(step.kind, StepKind::ReduceScatter(_) | StepKind::AllReduce(_));
        let lands = source.mesh().device(0).unwrap().kind != HOST && steps.last().is_some_and(sums);
        let short = steps.len() < 2 || (steps.len() == 2 && !lands);
        let enough = if short { from + to + message } else { from + 2 * message };
        assert!(
            peak <= enough,
            "{source} to {target}: device {position} held {peak}, with {from} before, {to} after and {message} in flight: {steps:?}"
        );
        drop(moved);
    }
}

/// All ways to place a tensor on so many mesh axes.
pub(crate) fn places(mesh_axes: usize, options: &[Place]) -> Vec<Vec<Place>> {
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
    for (kind, sizes) in
        [ALONE, HOST].into_iter().flat_map(|kind| [&[4][..], &[2, 2], &[2, 4]].map(|s| (kind, s)))
    {
        let mesh = DeviceMesh::simulated(kind, sizes, &NAMES[..sizes.len()]).unwrap();
        let all = places(sizes.len(), &options);
        for (from, to) in all.iter().flat_map(|from| all.iter().map(move |to| (from, to))) {
            check(&lay(&mesh, &[16, 8], from), &lay(&mesh, &[16, 8], to));
        }
    }
}

/// The step that combines reads what an all_to_all made, and has a message of its own beside it and the caller's source.
#[test]
fn a_sum_after_an_exchange() {
    let (part, s0, s1) = (Place::PARTIAL, Place::Sharded(0), Place::Sharded(1));
    for kind in [ALONE, HOST] {
        let mesh = DeviceMesh::simulated(kind, [2, 2, 2], &NAMES[..3]).unwrap();
        check(&lay(&mesh, &[8, 8], &[part, s0, s1]), &lay(&mesh, &[8, 8], &[s0, s1, s1]));
    }
}

/// Parts are summed into pieces of several ranges, of uneven sizes, and in groups of more than one kernel takes.
#[test]
fn pieces_of_any_ranges() {
    let (part, s0, s1) = (Place::PARTIAL, Place::Sharded(0), Place::Sharded(1));
    let interleaved = |axis, parts: &[usize]| Interleaved::place(axis, parts);
    let turned = |axis| Place::custom(Turned(axis));
    let targets: [(&[usize], Vec<Vec<Place>>); 4] = [
        (
            &[4],
            vec![
                vec![interleaved(0, &[5, 6])],
                vec![turned(1)],
                vec![Ragged::place(0, [11, 0, 0, 0])],
                vec![Ragged::place(0, [0, 4, 0, 7])],
                vec![s0],
            ],
        ),
        (
            &[3, 3],
            vec![
                vec![turned(1), interleaved(0, &[8, 3])],
                vec![interleaved(1, &[1, 6]), s0],
                vec![Ragged::place(0, [0, 11, 0]), turned(1)],
                vec![Ragged::place(1, [7, 0, 0]), Ragged::place(0, [1, 9, 1])],
                vec![s0, s0],
            ],
        ),
        (
            &[12],
            vec![
                vec![turned(0)],
                vec![s0],
                vec![s1],
                vec![Ragged::place(0, [11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
            ],
        ),
        (&[2, 8], vec![vec![s1, turned(0)], vec![turned(1), s0], vec![s0, s0]]),
    ];
    for kind in [ALONE, HOST] {
        for (sizes, targets) in &targets {
            let mesh = DeviceMesh::simulated(kind, sizes, &NAMES[..sizes.len()]).unwrap();
            for target in targets {
                let source = lay(&mesh, &[11, 7], &vec![part; sizes.len()]);
                check(&source, &lay(&mesh, &[11, 7], target));
            }
        }
        // After an exchange, whose result nobody else holds.
        let mesh = DeviceMesh::simulated(kind, [2, 9], &NAMES[..2]).unwrap();
        check(&lay(&mesh, &[16, 18], &[s0, part]), &lay(&mesh, &[16, 18], &[s1, Place::Replicated]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn on_up_to_five_axes(
        kind in prop::sample::select(vec![ALONE, HOST]),
        sizes in prop::collection::vec(1_usize..3, 1..6),
        words in prop::collection::vec((0_usize..4, 0_usize..4), 5),
    ) {
        let place = |word: usize| match word {
            0 => Place::Replicated,
            1 => Place::PARTIAL,
            word => Place::Sharded(word as u8 - 2),
        };
        let mesh = DeviceMesh::simulated(kind, &sizes, &NAMES[..sizes.len()]).unwrap();
        let side = |pick: fn(&(usize, usize)) -> usize| -> Vec<Place> {
            words.iter().take(sizes.len()).map(|pair| place(pick(pair))).collect()
        };
        // All cuts are even.
        let n = mesh.num_devices();
        check(&lay(&mesh, &[n, n], &side(|pair| pair.0)), &lay(&mesh, &[n, n], &side(|pair| pair.1)));
    }
}

/// The volume model under a name that has no yardstick: its programs stay within the bound whatever they cost.
#[derive(Debug)]
pub(crate) struct Bounded;

impl CostModel for Bounded {
    fn key(&self) -> u64 {
        0x0062_6f75_6e64_6564
    }
    fn unit(&self) -> CostUnit {
        CostUnit::Bytes
    }
    fn transition(&self, transition: Transition, bytes: f64, mesh: &DeviceMesh, axis: usize) -> f64 {
        VolumeCost.transition(transition, bytes, mesh, axis)
    }
    fn step(&self, query: &StepQuery<'_>) -> f64 {
        VolumeCost.step(query)
    }
}

/// The most that one device holds between two steps, over the most that one holds before or after.
fn excess(program: &Program) -> f64 {
    let most = |layout: &TensorLayout| {
        let devices = 0..layout.mesh().num_devices();
        devices.map(|position| layout.local_shape(position).elements()).max().unwrap() as f64
    };
    let ends = most(&program.source).max(most(&program.target));
    program.steps.iter().map(|step| most(&step.target) / ends).fold(1.0, f64::max)
}

/// Every change of placements, with extents that no mesh cuts evenly. Under the volume model a device holds more only where
/// of all programs there are none within the bound costs as little as to combine, gather and slice, and then no more than
/// it must. Gives the number of programs, of those that hold more, and the most times that one holds more.
fn check_bound(sizes: &[usize], shape: &[usize], options: &[Place]) -> (usize, usize, f64) {
    let seconds = AlphaBetaCost::new(fabric::NVLINK_4.link).unwrap();
    let (mut searched, mut beyond, mut most) = (0, 0, 1.0_f64);
    let mesh = DeviceMesh::simulated(ALONE, sizes, &NAMES[..sizes.len()]).unwrap();
    let layouts: Vec<TensorLayout> =
        places(sizes.len(), options).iter().map(|places| lay(&mesh, shape, places)).collect();
    let mut oracle = None;
    for (from, to) in layouts.iter().flat_map(|from| layouts.iter().map(move |to| (from, to))) {
        searched += 1;
        let bounded = [&seconds as &dyn CostModel, &Bounded].map(|cost| {
            let program = Program::search(from, to, cost).unwrap();
            assert_eq!(excess(&program), 1.0, "{from} to {to}: {:?}", program.steps);
            program.cost
        });
        let program = Program::search(from, to, &VolumeCost).unwrap();
        // The same prices by another name: no shortcut, and no bound on the rest of a way.
        assert!(program.cost <= bounded[1] * (1.0 + 1e-9), "{from} to {to}: {} {program:?}", bounded[1]);
        let (excess, yardstick) = (excess(&program), reference::price(from, to));
        assert!(program.cost <= yardstick * (1.0 + 1e-9), "{from} to {to}: {yardstick}, {program:?}");
        if excess > 1.0 {
            beyond += 1;
            most = most.max(excess);
            let oracle = oracle.get_or_insert_with(|| Oracle::new(from, options));
            let least = oracle.least_excess(from, to, yardstick);
            assert_eq!(excess, least, "{from} to {to}: {:?}", program.steps);
            // The contract's exception: a mesh axis is Replicated on the way where source or target hold the whole along it.
            for step in &program.steps {
                let whole =
                    |layout: &TensorLayout, axis: usize| layout.places()[axis].tensor_axis().is_none();
                let excused = |axis: usize| whole(from, axis) || whole(to, axis);
                let freed = (0..sizes.len()).filter(|axis| whole(&step.target, *axis));
                assert!(freed.clone().all(excused), "{from} to {to}: {:?}", program.steps);
            }
        }
    }
    (searched, beyond, most)
}

#[test]
fn no_device_holds_more_on_the_way_than_before_or_after() {
    let options = [Place::Replicated, Place::PARTIAL, Place::Sharded(0), Place::Sharded(1)];
    let (mut searched, mut beyond, mut most) = (0, 0, 1.0_f64);
    for sizes in [&[2][..], &[3], &[4], &[8], &[2, 2], &[2, 3], &[3, 2], &[2, 4], &[2, 2, 2], &[2, 3, 2]] {
        for shape in [[3, 5], [6, 10], [7, 1], [33, 35], [1025, 7], [1025, 1023]] {
            let (all, more, times) = check_bound(sizes, &shape, &options);
            assert!(
                more == 0 || sizes.len() > 2 && shape != [1025, 1023],
                "{more} on {sizes:?} of {shape:?}"
            );
            (searched, beyond, most) = (searched + all, beyond + more, most.max(times));
        }
    }
    println!("of {searched} programs {beyond} hold more on the way, at most {most} times as much");
    assert!(searched > 50_000 && beyond * 1000 < searched && most <= 2.0, "{beyond} of {searched}, {most}");
}

/// With a third tensor axis to go over there is always a way within the bound.
#[test]
fn a_third_tensor_axis_is_way_enough() {
    let options = [0, 1, 2].map(Place::Sharded).into_iter().chain([Place::Replicated, Place::PARTIAL]);
    let options: Vec<Place> = options.collect();
    for sizes in [&[2, 2][..], &[2, 3], &[2, 2, 2]] {
        for shape in [[3, 5, 2], [7, 1, 3], [9, 13, 11]] {
            let (_, beyond, _) = check_bound(sizes, &shape, &options);
            assert_eq!(beyond, 0, "on {sizes:?} of {shape:?}");
        }
    }
}
