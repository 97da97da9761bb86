//! The contracts under stress, from outside.

mod attack;
mod attack_input;
mod attack_manual;
mod attack_state;
mod deferred;
mod fuzz;
mod moves;
mod op;
mod pretend;
mod zigzag;

use sharding_ops::{DType, DeviceMapping, DeviceMesh, Element, Place, Result, Tensor};

/// Small integers of both signs as floats: sums of them are exact.
fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + 3) % 11) as f32 - 5.0).collect()
}

/// A tensor of [`values`] in any placement that host data can have.
fn tensor(mesh: &DeviceMesh, shape: &[usize], places: &[Place]) -> Result<Tensor> {
    assert_eq!(<f32 as Element>::DTYPE, DType::F32);
    Tensor::from_slice(&values(shape.iter().product()), shape, &DeviceMapping::new(mesh, places)?)
}
