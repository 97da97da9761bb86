//! Real programs without data: on a mesh of a million devices, and beside the CPU on a small one.

use crate::joint::Placed;
use sharding_core::backend::{StepKind, backend_of};
use sharding_core::conformance::host::Random;
use sharding_core::op::{Case, Cases, OpDef, Registry};
use sharding_core::plan::{AlphaBetaCost, CostUnit, StepQuery, fabric, roofline};
use sharding_ops::{
    BackendKind, CostModel, DType, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, ReduceOp, Replicated,
    Scope, Sharded, Tensor, TensorLayout, VolumeCost, add, all_reduce, explain, full, gelu, layer_norm,
    matmul, pad, relu, scaled_dot_product_attention, softmax,
};
use std::sync::Arc;

fn mesh(kind: BackendKind, sizes: [usize; 2]) -> DeviceMesh {
    DeviceMesh::simulated(kind, sizes, ["dp", "tp"]).unwrap()
}

fn ones(mesh: &DeviceMesh, shape: impl Into<sharding_core::Shape>, places: [Place; 2]) -> Tensor {
    full(shape, 1.0, DType::F32, &DeviceMapping::new(mesh, places).unwrap()).unwrap()
}

/// Two layers, the first split by columns and the second by rows, and what surrounds them: rows of activations over
/// `dp`, weights over `tp`. Gives the layouts of every value on the way.
fn block(mesh: &DeviceMesh, batch: usize, width: usize) -> Vec<TensorLayout> {
    let x = ones(mesh, [batch, width], [Sharded(0), Replicated]);
    let (gamma, beta) =
        (ones(mesh, [width], [Replicated, Replicated]), ones(mesh, [width], [Replicated, Replicated]));
    let up = ones(mesh, [width, 4 * width], [Replicated, Sharded(1)]);
    let down = ones(mesh, [4 * width, width], [Replicated, Sharded(0)]);
    let normal = layer_norm(&x, &gamma, &beta, 1e-5).unwrap();
    let wide = gelu(&matmul(&normal, &up).unwrap()).unwrap();
    let partial = matmul(&wide, &down).unwrap();
    let whole = all_reduce(&partial, "tp").unwrap();
    let out = relu(&add(&whole, &x).unwrap()).unwrap();
    let weights = softmax(&wide, 1).unwrap();
    [normal, wide, partial, whole, out, weights].iter().map(|value| value.layout().clone()).collect()
}

#[test]
fn a_block_runs_on_a_million_devices() {
    let mesh = mesh(BackendKind::SIM, [1024, 1024]);
    let (batch, width) = (1 << 20, 1 << 15);
    let run = || backend_sim::record(|| block(&mesh, batch, width)).1;
    let log = run();
    assert_eq!(log.devices.len(), 4, "{log}");
    let reduces: Vec<(f64, u64)> = log
        .collectives
        .iter()
        .filter(|one| one.kind == StepKind::AllReduce(ReduceOp::Sum))
        .map(|one| (one.bytes, one.count))
        .collect();
    // 4 bytes an element, each device's rows of the batch; the softmax over the split axis reduces a column.
    let volume = |elements: usize| 2.0 * 4.0 * elements as f64 / 1024.0 * 1023.0 / 1024.0;
    assert_eq!(reduces, [(volume(batch * width), 1), (volume(batch), 1)], "{log}");
    // Both products: 2 * rows * width * 4 width / 1024 on every device.
    let dots = log.kernels["dot"];
    assert_eq!((dots.count, dots.flops), (8, 8.0 * 2.0 * 1024.0 * (width * 4 * width / 1024) as f64));
    // Nothing stays behind, and a second run costs the same.
    assert!(log.devices.values().all(|device| device.live == 0), "{log}");
    assert_eq!(run(), log);
}

#[test]
fn layouts_are_those_of_the_cpu() {
    let on = |kind| block(&mesh(kind, [2, 3]), 7, 5);
    let (cpu, sim) = (on(BackendKind::CPU), on(BackendKind::SIM));
    for (cpu, sim) in cpu.iter().zip(&sim) {
        assert_eq!((cpu.meta(), cpu.places()), (sim.meta(), sim.places()));
    }
}

#[test]
fn shards_have_the_sizes_of_their_layouts() {
    let mesh = mesh(BackendKind::SIM, [4, 16]);
    let x = ones(&mesh, [10, 33], [Sharded(0), Sharded(1)]);
    let positions = backend_of(BackendKind::SIM).unwrap().positions(&mesh).unwrap();
    assert_eq!(positions.len(), 64);
    for (position, shard) in positions.iter().zip(x.shards()) {
        assert_eq!(*shard.shape(), x.layout().local_shape(*position));
    }
    let error = x.to_vec::<f32>().unwrap_err();
    assert!(error.to_string().contains("has no data"), "{error}");
}

/// The layouts that a case of an op gives on operands placed at random; the placements are the same for the same seed.
fn layouts(
    def: &'static OpDef,
    case: &Case,
    kind: BackendKind,
    sizes: &[usize],
    seed: u64,
) -> Result<Vec<TensorLayout>, Error> {
    let names: Vec<String> = (0..sizes.len()).map(|axis| format!("m{axis}")).collect();
    let mesh = DeviceMesh::simulated(kind, sizes, names).unwrap();
    Placed::new(def, case, &mesh, Some(&mut Random::new(seed))).layouts(&Scope::current())
}

/// Every case of every op runs without data, with the layouts that it has with data, or is refused for the same reason.
#[test]
fn every_op_runs_as_on_the_cpu() {
    let (mut ran, mut refused) = (0, 0);
    for def in Registry::get().unwrap().ops() {
        let mut cases = Cases::new();
        (def.cases)(&mut cases);
        for (seed, case) in (1..).zip(cases.iter()) {
            for sizes in [&[3][..], &[2, 2], &[2, 1, 3], &[1, 1]] {
                let on = |kind| layouts(def, case, kind, sizes, seed);
                match (on(BackendKind::CPU), on(BackendKind::SIM)) {
                    (Ok(cpu), Ok(sim)) => {
                        let seen = |all: &[TensorLayout]| {
                            all.iter().map(|x| (x.meta().clone(), x.places().to_vec())).collect::<Vec<_>>()
                        };
                        assert_eq!(seen(&cpu), seen(&sim), "{} over {sizes:?}", def.name);
                        ran += 1;
                    }
                    (Err(cpu), Err(sim)) => {
                        assert_eq!((cpu.kind(), cpu.message()), (sim.kind(), sim.message()), "{}", def.name);
                        refused += 1;
                    }
                    (cpu, sim) => {
                        panic!("{} over {sizes:?}: {cpu:?} on the CPU, {sim:?} without data", def.name)
                    }
                }
            }
        }
    }
    println!("{ran} ran, {refused} were refused by both");
    assert!(ran > 1000 && refused < ran / 10, "{ran} ran, {refused} were refused by both");
}

/// A million devices, eight mesh axes, axes of size 1: any op runs there too, with results of the same global shapes.
#[test]
fn every_op_runs_on_meshes_of_any_size() {
    let mut ran = 0;
    for def in Registry::get().unwrap().ops() {
        let mut cases = Cases::new();
        (def.cases)(&mut cases);
        for (seed, case) in (1..).zip(cases.iter()) {
            let whole = layouts(def, case, BackendKind::SIM, &[1], seed);
            for sizes in [&[1024, 1024][..], &[2; 8], &[1; 8], &[65, 1]] {
                match (&whole, layouts(def, case, BackendKind::SIM, sizes, seed)) {
                    (Ok(whole), Ok(all)) => {
                        assert!(
                            whole.iter().map(TensorLayout::meta).eq(all.iter().map(TensorLayout::meta)),
                            "{}",
                            def.name
                        );
                        ran += 1;
                    }
                    // Buffers are not moved, wherever the rest lies.
                    (_, Err(error)) => {
                        assert!(error.kind() == ErrorKind::Sharding, "{} over {sizes:?}: {error}", def.name)
                    }
                    (Err(error), _) => assert_eq!(error.kind(), ErrorKind::Sharding, "{}: {error}", def.name),
                }
            }
        }
    }
    assert!(ran > 1000, "{ran}");
}

/// Attention is two matrix products, which the units for those do, and a softmax, which the others do.
#[test]
fn attention_takes_the_time_of_its_products() {
    let mesh = mesh(BackendKind::SIM, [2, 4]);
    let (batch, heads, tokens, width) = (2, 8, 4096, 128);
    let places = DeviceMapping::new(&mesh, [Sharded(0), Sharded(1)]).unwrap();
    let x = full([batch, heads, tokens, width], 1.0, DType::BF16, &places).unwrap();
    let network = Arc::new(AlphaBetaCost::new(fabric::NVLINK_4.link).unwrap());
    let machine = backend_sim::Machine { device: roofline::H100_SXM, network };
    let run = || scaled_dot_product_attention(&x, &x, &x, None, false, None).unwrap();
    let (_, log) = backend_sim::Simulation::on(machine).record(run);
    // A device has one sequence and two heads.
    let scores = (2 * tokens * tokens) as f64;
    let want = scores * 4.0 * width as f64 / 989.5e12 + scores * 5.0 / 67e12;
    assert!((log.compute_seconds().unwrap() / want - 1.0).abs() < 1e-9, "{log}");
}

/// What one device receives is not what all do: of many devices, some along every mesh axis are asked.
#[test]
fn an_exchange_on_a_large_mesh_is_seen() {
    let moved = |sizes: [usize; 2]| {
        let mesh = mesh(BackendKind::SIM, sizes);
        let x = ones(&mesh, [4, 6400], [Replicated, Sharded(1)]);
        // The first device needs nothing of others, the second almost all that it has.
        let run = || backend_sim::record(|| pad(&x, &[(0, 0), (100, 0)], 0.0.into()).unwrap());
        let explained = explain(run);
        let [step] = &explained.report.steps[..] else { panic!("{explained}") };
        assert_eq!(step.kind, StepKind::Permute, "{explained}");
        assert_eq!(explained.value.1.bytes_moved(), step.bytes, "both say the same");
        step.bytes
    };
    // 98 columns of four rows.
    assert_eq!(moved([1, 64]), 98.0 * 16.0);
    let many = moved([1024, 64]);
    assert!((49.0 * 16.0..=98.0 * 16.0).contains(&many), "{many}");
}

/// A network that panics, or says what is no time, is an error of the op.
#[test]
fn machines_of_users_may_be_wrong() {
    #[derive(Debug)]
    struct Wrong(f64);
    impl CostModel for Wrong {
        fn key(&self) -> u64 {
            0x1e55
        }
        fn unit(&self) -> CostUnit {
            CostUnit::Seconds
        }
        fn transition(
            &self,
            of: sharding_core::placement::Transition,
            bytes: f64,
            mesh: &DeviceMesh,
            axis: usize,
        ) -> f64 {
            VolumeCost.transition(of, bytes, mesh, axis)
        }
        fn step(&self, _: &StepQuery<'_>) -> f64 {
            assert_ne!(self.0, 7.0, "the network is down");
            self.0
        }
    }
    let mesh = mesh(BackendKind::SIM, [2, 2]);
    let x = ones(&mesh, [4, 4], [Sharded(0), Replicated]);
    let whole = DeviceMapping::replicated(&mesh);
    let on = |seconds: f64| {
        let machine = backend_sim::Machine { device: roofline::H100_SXM, network: Arc::new(Wrong(seconds)) };
        backend_sim::Simulation::on(machine).record(|| x.transfer_to(&whole).map(drop))
    };
    for (seconds, says) in [(7.0, "the network is down"), (f64::NAN, "NaN seconds"), (-1.0, "-1 seconds")] {
        let error = on(seconds).0.unwrap_err();
        assert!(error.to_string().contains(says) && error.op() == Some("transfer_to"), "{error}");
    }
    assert_eq!(on(2.0).1.seconds(), Some(2.0));
    assert_eq!(on(f64::INFINITY).1.seconds(), Some(f64::INFINITY));
}
