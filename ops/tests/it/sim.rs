//! Real programs without data: on a mesh of a million devices, and beside the CPU on a small one.

use sharding_core::backend::{StepKind, backend_of};
use sharding_ops::{
    BackendKind, DType, DeviceMapping, DeviceMesh, Place, ReduceOp, Replicated, Sharded, Tensor,
    TensorLayout, add, all_reduce, full, gelu, layer_norm, matmul, relu, softmax,
};

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
