//! An op of another crate: its rule is proved, and its kernel for one backend replaces the portable one.

use super::tensor;
use sharding_core::BackendKind;
use sharding_core::op::{Op, Registry};
use sharding_ops::{DeviceMesh, Place, ReduceOp, Result};
use stress::op::squared_distance;

sharding_core::check_rule!(squared_distance);

#[test]
fn is_registered_with_its_kernel() -> Result<()> {
    let registry = Registry::get()?;
    assert_eq!(registry.op("squared_distance")?.at, squared_distance::DEF.at);
    assert!(registry.kernel("squared_distance", BackendKind::CPU).is_some());
    assert!(registry.kernel("squared_distance", BackendKind::SIM).is_none());
    let error = registry.op("squared_distnce").map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("did you mean squared_distance"), "{error}");
    Ok(())
}

#[test]
fn both_kernels_agree_and_split_features_are_partial() -> Result<()> {
    let cpu = DeviceMesh::simulated(BackendKind::CPU, [3], ["tp"])?;
    let portable = DeviceMesh::simulated(stress::deferred::KIND, [3], ["tp"])?;
    let mut results = Vec::new();
    for mesh in [cpu, portable] {
        let x = tensor(&mesh, &[5, 7], &[Place::Sharded(1)])?;
        let y = tensor(&mesh, &[4, 7], &[Place::Sharded(1)])?;
        let d = squared_distance(&x, &y)?;
        assert_eq!(d.layout().places(), [Place::Partial(ReduceOp::Sum)]);
        results.push(d.to_vec::<f32>()?);
    }
    assert_eq!(results[0], results[1]);
    let own = |i: usize| results[0][i * 4 + i];
    assert!((0..4).all(|i| own(i) == 0.0), "a row is at distance 0 from itself: {:?}", results[0]);
    Ok(())
}
