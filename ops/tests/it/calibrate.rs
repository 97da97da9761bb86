//! Measuring a mesh, and keeping what was measured.

use sharding_core::plan::{AlphaBetaCost, calibrate};
use sharding_core::redistribute::Program;
use sharding_ops::{
    BackendKind, DType, DeviceMapping, DeviceMesh, ErrorKind, Partial, ReduceOp, Replicated, Result,
    TensorLayout,
};

#[test]
fn a_mesh_is_measured_and_the_file_read_back() -> Result<()> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 1, 3], ["dp", "pp", "tp"])?;
    let cost = calibrate(&mesh)?;
    // Something took time: the latency, or the bytes.
    for name in ["dp", "tp"] {
        let link = cost.link(name);
        assert!(link.latency + link.seconds_per_byte > 0.0, "{name}: {link:?}");
        assert!(link.latency < 0.1 && link.seconds_per_byte < 1e-6, "{name}: {link:?}");
    }
    assert!(cost.memory_seconds_per_byte() > 0.0);
    assert_eq!((cost.link("pp").latency, cost.link("pp").seconds_per_byte), (0.0, 0.0));
    let path = std::env::temp_dir().join(format!("sharding-calibrate-{}.toml", std::process::id()));
    cost.write(&path, &mesh)?;
    let back = AlphaBetaCost::read(&path, &mesh)?;
    let other =
        AlphaBetaCost::read(&path, &DeviceMesh::simulated(BackendKind::CPU, [3, 1, 2], ["dp", "pp", "tp"])?);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(back, cost);
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Mesh);
    assert_eq!(AlphaBetaCost::read(&path, &mesh).unwrap_err().kind(), ErrorKind::File);
    // More bytes take longer.
    let price = |n: usize| -> Result<f64> {
        let places = [Partial(ReduceOp::Sum), Replicated, Replicated];
        let source = TensorLayout::new(DType::F32, [n], DeviceMapping::new(&mesh, places)?)?;
        let target = source.with_mapping(DeviceMapping::replicated(&mesh))?;
        Ok(Program::search(&source, &target, &cost)?.cost)
    };
    assert!(price(1 << 24)? > price(1 << 10)?);
    Ok(())
}

#[cfg(feature = "sim")]
#[test]
fn devices_without_data_are_not_measured() {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [2], ["tp"]).unwrap();
    let error = calibrate(&mesh).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Backend, Some("calibrate")));
    assert!(error.fix().unwrap().contains("fabric::"), "{error}");
}
