//! A mesh of a million devices costs what its corners cost.

use backend_sim::{ALL_POSITIONS, SimBackend, record};
use sharding_core::backend::{Backend, LocalArray, LocalArrays};
use sharding_core::op::{Cases, Grouped, Op, OpDef, OperandDef, OperandKind};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, replicated_rows};
use sharding_core::{
    BackendKind, DType, Device, DeviceMapping, DeviceMesh, Error, ErrorKind, KernelCx, Metas, Operand, Place,
    Result, Shards, StageCx, Tensor, TensorMeta, dispatch,
};

#[test]
fn corners_stand_for_large_meshes() {
    let positions = |shape: &[usize]| {
        let names: Vec<String> = (0..shape.len()).map(|i| format!("a{i}")).collect();
        let mesh = DeviceMesh::simulated(BackendKind::SIM, shape, names).unwrap();
        SimBackend.positions(&mesh).unwrap().to_vec()
    };
    assert_eq!(positions(&[ALL_POSITIONS]), (0..ALL_POSITIONS).collect::<Vec<_>>());
    assert_eq!(positions(&[1024, 1024]), [0, 1023, 1023 * 1024, 1024 * 1024 - 1]);
    assert_eq!(positions(&[1, 65]), [0, 64]);
    assert_eq!(positions(&[4; 8]).len(), 256);
    assert!(positions(&[4; 8]).is_sorted());
}

#[test]
fn devices_of_another_kind_are_refused() {
    let mesh = DeviceMesh::single(Device::cpu());
    let error = SimBackend.positions(&mesh).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backend);
    assert!(error.to_string().contains("cpu:0"), "{error}");
}

struct Matmul;
impl Op for Matmul {
    type Args = ();
    const DEF: &'static OpDef = &OpDef::of::<Matmul>(
        "matmul",
        &[
            OperandDef { name: "a", kind: OperandKind::Tensor },
            OperandDef { name: "b", kind: OperandKind::Tensor },
        ],
        Some(1),
        (file!(), line!()),
    );
    fn shape(operands: Grouped<'_, TensorMeta>, (): &()) -> Result<Metas> {
        let (a, b) = (operands.one(0)?, operands.one(1)?);
        Ok([TensorMeta::new(a.dtype, [a.shape[0], b.shape[1]])].into_iter().collect())
    }
    fn rows(cx: &RuleCx<'_>, (): &(), rows: &mut Rows) -> Result<()> {
        replicated_rows(cx, rows);
        rows.add([sharded(0), Place::Replicated], [sharded(0)]);
        rows.add([Place::Replicated, sharded(1)], [sharded(1)]);
        rows.add([sharded(1), sharded(0)], [Place::PARTIAL]);
        Ok(())
    }
    fn kernel(
        cx: &mut KernelCx<'_>,
        operands: Grouped<'_, &LocalArray>,
        _: &mut [LocalArray],
        (): &(),
        results: &mut LocalArrays,
    ) -> Result<()> {
        results.push(cx.dot(operands.one(0)?, operands.one(1)?)?);
        Ok(())
    }
    fn stages(_: &mut StageCx<'_>, _: Grouped<'_, Shards>, (): &()) -> Result<Vec<Shards>> {
        Err(Error::new(ErrorKind::Internal, "no stages"))
    }
    fn cases(_: &mut Cases) {}
}

fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    dispatch::<Matmul>(&mut [Operand::from(a), Operand::from(b)], ())?.one()
}

/// A tensor of the sim backend without host data.
fn empty(shape: [usize; 2], mapping: &DeviceMapping) -> Tensor {
    let layout = sharding_core::TensorLayout::new(DType::F32, shape, mapping.clone()).unwrap();
    let positions = SimBackend.positions(mapping.mesh()).unwrap();
    let shard = |position: &usize| {
        let device = mapping.mesh().device(*position).unwrap();
        SimBackend.alloc(device, DType::F32, &layout.local_shape(*position)).unwrap()
    };
    let shards = positions.iter().map(shard).collect();
    Tensor::from_shards(layout, positions, shards).unwrap()
}

#[test]
fn a_program_runs_on_a_million_devices() {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [1024, 1024], ["dp", "tp"]).unwrap();
    let n = 1 << 20;
    let on = |places: [Place; 2]| DeviceMapping::new(&mesh, places).unwrap();
    let a = empty([n, n], &on([sharded(0), Place::Replicated]));
    let b = empty([n, n], &on([Place::Replicated, sharded(1)]));
    let (c, log) = record(|| matmul(&a, &b).unwrap());
    assert_eq!(c.layout().places(), [sharded(0), sharded(1)]);
    assert_eq!(log.devices.len(), 4, "{log}");
    // 1024 x n by n x 1024 on every device.
    assert_eq!(log.flops(), 2.0 * 1024.0 * 1024.0 * n as f64);
    assert_eq!(log.kernels["dot"].count, 4);
    assert_eq!(log.peak_bytes(), 4 * (2 * 1024 * n as u64 + 1024 * 1024));
    assert!(log.collectives.is_empty());
}

#[test]
fn a_program_is_timed_by_its_machine() {
    use backend_sim::{Machine, Simulation};
    use sharding_core::plan::{AlphaBetaCost, Link, roofline::H100_SXM};
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [1024, 8], ["dp", "tp"]).unwrap();
    let on = |places: [Place; 2]| DeviceMapping::new(&mesh, places).unwrap();
    let network =
        AlphaBetaCost::new(Link::new(1e-3, 1.0)).unwrap().with_axis("tp", Link::new(1e-6, 1e11)).unwrap();
    let simulation = Simulation::on(Machine { device: H100_SXM, network: std::sync::Arc::new(network) });
    let n = 8192_usize;
    let run = || {
        let a = empty([1024 * n, n], &on([sharded(0), sharded(1)]));
        let b = empty([n, n], &on([Place::Replicated, sharded(0)]));
        matmul(&a, &b).unwrap().transfer_to(&on([sharded(0), Place::Replicated])).unwrap()
    };
    let (_, log) = simulation.record(run);
    let line = line!() - 3;
    let size = n as f64;
    // A product of n x n/8 by n x n in f32, and the sum of its eight parts over tp.
    let product =
        (2.0 * size * size * size / 8.0 / 67e12).max(4.0 * size * size * (1.0 + 2.0 / 8.0) / 3.35e12);
    let sum = 6.0 * 1e-6 + 2.0 * 7.0 / 8.0 * 4.0 * size * size / 1e11;
    let close = |got: Option<f64>, want: f64| {
        assert!((got.unwrap() / want - 1.0).abs() < 1e-9, "{got:?}, not {want}")
    };
    close(log.compute_seconds(), product);
    close(log.communication_seconds(), sum);
    close(log.seconds(), product + sum);
    let reduce = log.costliest()[0];
    assert_eq!(
        (reduce.axes.as_slice(), reduce.at.unwrap().0.line()),
        (&["tp".to_owned()][..], line),
        "{log}"
    );
    assert!(reduce.at.unwrap().to_string().ends_with(&format!("million.rs:{line}")));
    // Without a machine nothing is timed, unless the scope has a model in seconds: then collectives are.
    let (_, untimed) = record(run);
    assert_eq!((untimed.seconds(), untimed.bytes_moved()), (None, log.bytes_moved()));
    let seconds = std::sync::Arc::new(AlphaBetaCost::new(Link::new(1e-6, 1e11)).unwrap());
    let (_, log) = (*sharding_core::Scope::current()).clone().with_cost(seconds).enter(|| record(run));
    close(log.communication_seconds(), sum);
    assert_eq!(log.compute_seconds(), None);
}

#[test]
fn uneven_splits_are_owned_up_to() {
    use sharding_core::placement::{Interleaved, Ragged};
    let uneven = |sizes: [usize; 2], place: Place, rows: usize| {
        let mesh = DeviceMesh::simulated(BackendKind::SIM, sizes, ["dp", "tp"]).unwrap();
        let on = |place: Place| DeviceMapping::new(&mesh, [place, Place::Replicated]).unwrap();
        let product =
            record(|| matmul(&empty([rows, 4], &on(place)), &empty([4, 4], &on(Place::Replicated)))).1;
        let moved = record(|| empty([rows, 4], &on(place)).transfer_to(&on(Place::Replicated)).unwrap()).1;
        assert_eq!(product.to_string().contains("split unevenly"), product.uneven);
        (product.uneven, moved.uneven)
    };
    // The third of a hundred devices has the most.
    let mut sizes = vec![1; 100];
    sizes[2] = 7;
    let ragged = Ragged::place(0, sizes.clone());
    assert_eq!(uneven([100, 2], ragged, 106), (true, true));
    assert_eq!(uneven([100, 2], sharded(0), 106), (false, false));
    assert!(!uneven([100, 2], Interleaved::place(0, [53, 53]), 106).1);
    // A small mesh is held whole, and nothing is missing.
    let small = Ragged::place(0, [1, 7, 2, 1]);
    assert_eq!(uneven([4, 2], small, 11), (false, false));
}
