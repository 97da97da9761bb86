//! Collectives: sizes of what they leave, and the bytes they are booked with.

use backend_sim::{SimBackend, record};
use sharding_core::backend::{Backend, LocalArrays, Step, StepKind};
use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, ReduceOp, Shape, TensorLayout};

use Place::{Replicated as R, Sharded as S};
const P: Place = Place::PARTIAL;

/// Runs one step on a 2x3 mesh over an f32[10, 6]; gives the local shapes and the bytes booked.
fn run(kind: StepKind, axes: &[usize], from: [Place; 2], to: [Place; 2]) -> (Vec<Shape>, f64) {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [2, 3], ["x", "y"]).unwrap();
    let layout = |places: [Place; 2]| {
        TensorLayout::new(DType::F32, [10, 6], DeviceMapping::new(&mesh, places).unwrap()).unwrap()
    };
    let (source, target) = (layout(from), layout(to));
    let step = Step { kind, axes: axes.into(), source: source.clone(), target: target.clone(), cost: 0.0 };
    let shards: LocalArrays = mesh
        .devices()
        .enumerate()
        .map(|(i, device)| SimBackend.alloc(device, DType::F32, &source.local_shape(i)).unwrap())
        .collect();
    let (made, log) = record(|| SimBackend.collectives().run("test", &step, shards).unwrap());
    for (i, (array, device)) in made.iter().zip(mesh.devices()).enumerate() {
        assert_eq!((array.device(), array.shape()), (device, &target.local_shape(i)));
        let use_ = log.devices[&device];
        let bytes = |layout: &TensorLayout| layout.local_shape(i).elements() as u64 * 4;
        if kind != StepKind::Relabel {
            assert_eq!((use_.live, use_.peak), (bytes(&target), bytes(&target) + bytes(&source)));
        }
    }
    let bytes = log.bytes_moved();
    assert!(log.to_string().contains(kind.name()) || log.collectives.is_empty(), "{log}");
    (made.iter().map(|array| array.shape().clone()).collect(), bytes)
}

#[test]
fn volumes_are_those_of_the_cost_model() {
    let b = 240.0;
    assert_eq!(run(StepKind::AllReduce(ReduceOp::Sum), &[0], [P, R], [R, R]).1, 2.0 * b / 2.0);
    assert_eq!(run(StepKind::AllReduce(ReduceOp::Sum), &[0, 1], [P, P], [R, R]).1, 2.0 * b * 5.0 / 6.0);
    assert_eq!(run(StepKind::AllGather, &[1], [S(0), S(1)], [S(0), R]).1, b / 2.0 * 2.0 / 3.0);
    assert_eq!(run(StepKind::ReduceScatter(ReduceOp::Sum), &[1], [R, P], [R, S(0)]).1, b * 2.0 / 3.0);
    assert_eq!(run(StepKind::AllToAll, &[1], [R, S(0)], [R, S(1)]).1, b * 2.0 / 9.0);
    // Rows are 5|5 before and 4|3|3 after: device (1, 0) has none of its four.
    assert_eq!(run(StepKind::Permute, &[0, 1], [S(0), R], [R, S(0)]).1, 4.0 * 6.0 * 4.0);
    assert_eq!(run(StepKind::Relabel, &[0], [R, R], [R, R]).1, 0.0);
}

#[test]
fn shards_may_be_uneven() {
    let (shapes, _) = run(StepKind::ReduceScatter(ReduceOp::Sum), &[1], [R, P], [R, S(0)]);
    let rows: Vec<usize> = shapes.iter().map(|shape| shape[0]).collect();
    assert_eq!(rows, [4, 3, 3, 4, 3, 3]);
}

#[test]
fn equal_collectives_are_one_line() {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [2], ["x"]).unwrap();
    let layout =
        |place| TensorLayout::new(DType::F32, [4], DeviceMapping::new(&mesh, [place]).unwrap()).unwrap();
    let kind = StepKind::AllReduce(ReduceOp::Sum);
    let step = Step { kind, axes: [0][..].into(), source: layout(P), target: layout(R), cost: 0.0 };
    let ((), log) = record(|| {
        for op in ["a", "b", "a"] {
            let shards = mesh.devices().map(|d| SimBackend.alloc(d, DType::F32, &[4].into()).unwrap());
            SimBackend.collectives().run(op, &step, shards.collect()).unwrap();
        }
    });
    let counts: Vec<_> = log.collectives.iter().map(|one| (one.op, one.count, one.bytes)).collect();
    assert_eq!(counts, [("a", 2, 16.0), ("b", 1, 16.0)]);
    assert_eq!(log.bytes_moved(), 48.0);
}

/// Names of a user's ops and mesh axes break no lines of the table.
#[test]
fn names_break_no_table() {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [2], ["x\ty\u{202e}"]).unwrap();
    let layout =
        |place| TensorLayout::new(DType::F32, [4], DeviceMapping::new(&mesh, [place]).unwrap()).unwrap();
    let step = Step {
        kind: StepKind::AllGather,
        axes: [0][..].into(),
        source: layout(S(0)),
        target: layout(R),
        cost: 0.0,
    };
    let ((), log) = record(|| {
        let shards = mesh.devices().map(|d| SimBackend.alloc(d, DType::F32, &[2].into()).unwrap());
        SimBackend.collectives().run("my\nop\u{1b}[31m", &step, shards.collect()).unwrap();
    });
    let text = log.to_string();
    assert_eq!(text.lines().count(), 2 + 1 + 3, "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
    assert!(text.contains("my\u{fffd}op\u{fffd}[31m"), "{text}");
}
