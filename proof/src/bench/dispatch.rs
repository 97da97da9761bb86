//! Whole calls: planned (from the cache), redistributed, run on two simulated devices of the CPU.

use super::measure::{Measured, measure};
use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, Result, Tensor};
use sharding_ops::{add as add_op, matmul, relu};

/// The extent of every tensor axis: so small that everything but the arithmetic counts.
const N: usize = 8;

fn tensor(place: Place) -> Result<Tensor> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
    let values: Vec<f32> = (0..N * N).map(|i| (i % 7) as f32 - 3.0).collect();
    Tensor::from_slice(&values, [N, N], &DeviceMapping::new(&mesh, [place])?)
}

pub(super) fn add(name: &str) -> Result<Measured> {
    let (lhs, rhs) = (tensor(Place::Sharded(0))?, tensor(Place::Sharded(0))?);
    let measured = measure(name, || add_op(&lhs, &rhs))?;
    Ok(measured.with_bytes((3 * N * N * size_of::<f32>()) as u64).with_flops((N * N) as u64))
}

/// A column-parallel product that is summed over the devices before the relu.
pub(super) fn matmul_relu(name: &str) -> Result<Measured> {
    let (lhs, rhs) = (tensor(Place::Sharded(1))?, tensor(Place::Sharded(0))?);
    let measured = measure(name, || relu(&matmul(&lhs, &rhs)?))?;
    Ok(measured.with_bytes((3 * N * N * size_of::<f32>()) as u64).with_flops((2 * N * N * N) as u64))
}
