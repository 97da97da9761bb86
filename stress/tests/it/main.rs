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

/// Numbers that are as good as random and the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// Small integers of both signs as floats: sums of them are exact.
fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + 3) % 11) as f32 - 5.0).collect()
}

/// A tensor of [`values`] in any placement that host data can have.
fn tensor(mesh: &DeviceMesh, shape: &[usize], places: &[Place]) -> Result<Tensor> {
    assert_eq!(<f32 as Element>::DTYPE, DType::F32);
    Tensor::from_slice(&values(shape.iter().product()), shape, &DeviceMapping::new(mesh, places)?)
}
