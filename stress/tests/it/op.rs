//! An op of another crate: its rule is proved, and its kernel for one backend replaces the portable one.

use super::tensor;
use sharding_core::BackendKind;
use sharding_core::op::{Op, Registry};
use sharding_ops::{DeviceMesh, Place, ReduceOp, Result};
use stress::op::{doubled_and_turned, squared_distance};

sharding_core::check_rule!(squared_distance, doubled_and_turned);

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

#[test]
fn last_launches_of_several_devices_wait_for_each_other() -> Result<()> {
    for kind in [BackendKind::CPU, stress::deferred::KIND] {
        let mesh = DeviceMesh::simulated(kind, [2, 2], ["dp", "tp"])?;
        // On both axes split; and with devices whose work is equal.
        for places in [[Place::Sharded(0), Place::Sharded(1)], [Place::Replicated, Place::Sharded(0)]] {
            let x = tensor(&mesh, &[150, 131], &places)?;
            let (whole, got) = (x.to_vec::<f32>()?, doubled_and_turned(&x)?.to_vec::<f32>()?);
            let want: Vec<f32> = (0..131 * 150).map(|i| 2.0 * whole[i % 150 * 131 + i / 150]).collect();
            assert_eq!(got, want);
        }
    }
    // As one launch for all four.
    assert_eq!(stress::deferred::backend().most_devices("doubled_and_turned"), 4);
    Ok(())
}
