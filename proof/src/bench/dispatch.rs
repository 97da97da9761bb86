//! Whole calls: planned (from the cache), redistributed, run on two simulated devices of the CPU.

use super::Outcome;
use super::made::{extent, part, tensor as made};
use super::measure::measure;
use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, Result, Tensor};
use sharding_ops::{add as add_op, matmul, mul, relu};

/// The extent of every tensor axis: so small that everything but the arithmetic counts.
const N: usize = 8;

fn tensor(place: Place) -> Result<Tensor> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
    let values: Vec<f32> = (0..N * N).map(|i| (i % 7) as f32 - 3.0).collect();
    Tensor::from_slice(&values, [N, N], &DeviceMapping::new(&mesh, [place])?)
}

pub(super) fn add(name: &str) -> Result<Outcome> {
    let (lhs, rhs) = (tensor(Place::Sharded(0))?, tensor(Place::Sharded(0))?);
    let measured = measure(name, || add_op(&lhs, &rhs))?;
    Ok(measured.with_bytes((3 * N * N * size_of::<f32>()) as u64).with_flops((N * N) as u64).into())
}

/// A column-parallel product that is summed over the devices before the relu.
pub(super) fn matmul_relu(name: &str) -> Result<Outcome> {
    let (lhs, rhs) = (tensor(Place::Sharded(1))?, tensor(Place::Sharded(0))?);
    let measured = measure(name, || relu(&matmul(&lhs, &rhs)?))?;
    Ok(measured.with_bytes((3 * N * N * size_of::<f32>()) as u64).with_flops((2 * N * N * N) as u64).into())
}

/// A benchmark by its name, `elementwise/20/SIZE`: 20 ops of which each takes the result of the one before, on pieces of
/// a tensor of that size.
pub(super) fn elementwise(name: &str) -> Result<Outcome> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
    let extent = extent(part(name, 2)?)?;
    let operand = || made(&mesh, [extent, extent], &[Place::Sharded(0)]);
    let (x, y, z) = (operand()?, operand()?, operand()?);
    let measured = measure(name, || (0..10).try_fold(x.clone(), |x, _| mul(&add_op(&x, &y)?, &z)))?;
    let elements = 20 * extent * extent;
    Ok(measured.with_bytes((3 * elements * size_of::<f32>()) as u64).with_flops(elements as u64).into())
}
