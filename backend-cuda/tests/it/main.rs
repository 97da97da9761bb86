//! The cuda backend from outside, on machines with and without a GPU.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::expect_used, unreachable_pub)]

mod conformance;

use backend_cuda::CudaBackend;
use sharding_core::backend::{
    Backend, Distribution, Expr, FusedOp, Gather, IndexMap, Iota, Primitive, Random, RandomKey, Reduce, Step,
    StepKind, Work,
};
use sharding_core::{
    BackendKind, DType, Device, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, ReduceOp, Shape,
    TensorLayout,
};

fn primitives() -> Vec<(&'static str, Primitive)> {
    let reduce = Reduce { op: ReduceOp::Sum, axes: [0][..].into() };
    let iota = Iota { axis: 0, first: 0, start: 0.0, step: 1.0, dtype: DType::F32 };
    let random = Random {
        distribution: Distribution::Bernoulli { p: 0.5 },
        key: RandomKey::new(0),
        whole: Shape::from([]),
        region: Default::default(),
        dtype: DType::Bool,
    };
    vec![
        ("map", Primitive::Map(Expr::input(0))),
        ("reduce", Primitive::Reduce(reduce)),
        ("dot", Primitive::Dot),
        ("gather", Primitive::Gather(Gather { axis: 0, base: 0, bound: 1 })),
        ("copy", Primitive::Copy(IndexMap::reshape(&Shape::from([1])))),
        ("iota", Primitive::Iota(iota)),
        ("random", Primitive::Random(random)),
        ("softmax", Primitive::Fused(FusedOp::Softmax { axis: 0 })),
        ("layer_norm", Primitive::Fused(FusedOp::LayerNorm { eps: 1e-5 })),
        ("rms_norm", Primitive::Fused(FusedOp::RmsNorm { eps: 1e-5 })),
    ]
}

/// An error that a user can act on.
fn helps(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Backend, "{error}");
    assert!(error.fix().is_some(), "{error}");
}

#[test]
fn probing_never_panics_and_says_what_is_missing() {
    match CudaBackend.devices() {
        Ok(devices) => {
            assert!(!devices.is_empty());
            let mesh = DeviceMesh::new(&devices, [devices.len()], ["gpu"]).unwrap();
            assert_eq!(CudaBackend.positions(&mesh).unwrap().len(), devices.len());
            let beyond = Device::new(BackendKind::CUDA, devices.len() as u32);
            helps(&CudaBackend.positions(&DeviceMesh::single(beyond)).unwrap_err());
        }
        Err(error) => {
            helps(&error);
            println!("SKIPPED: meshes on GPUs: {error}");
            let mesh = DeviceMesh::single(Device::new(BackendKind::CUDA, 0));
            assert_eq!(CudaBackend.positions(&mesh).unwrap_err().to_string(), error.to_string());
        }
    }
    helps(&CudaBackend.alloc(Device::new(BackendKind::CUDA, 0), DType::F32, &[2].into()).unwrap_err());
}

#[test]
fn what_is_missing_is_refused_before_and_when_it_is_called() {
    for (name, primitive) in primitives() {
        assert!(!CudaBackend.supports(&primitive, &[]).is_yes(), "{name}");
        let device = Device::new(BackendKind::CUDA, 0);
        let work = Work { op: "test", device, inputs: &[], outputs: &mut [] };
        let error = CudaBackend.launch(&primitive, &mut [work]).unwrap_err();
        helps(&error);
        assert_eq!(error.op(), Some("test"));
        assert!(error.to_string().contains(&format!("no {name} yet")), "{error}");
    }
}

#[test]
fn collectives_are_refused_by_name() {
    let mesh = DeviceMesh::simulated(BackendKind::CUDA, [2], ["x"]).unwrap();
    let layout =
        |place| TensorLayout::new(DType::F32, [4], DeviceMapping::new(&mesh, [place]).unwrap()).unwrap();
    let (source, target) = (layout(Place::Sharded(0)), layout(Place::Replicated));
    let step = Step { kind: StepKind::AllGather, axes: [0][..].into(), source, target, cost: 0.0 };
    let collectives = CudaBackend.collectives();
    assert!(!collectives.supports(&step).is_yes());
    let error = collectives.run("test", &step, Default::default()).unwrap_err();
    helps(&error);
    assert!(error.to_string().contains("all_gather"), "{error}");
}
