//! Kernels that take their time, on one device.

use super::Outcome;
use super::made::{part, tensor};
use super::measure::measure;
use sharding_core::{BackendKind, DeviceMesh, Error, ErrorKind, Place, Result, Tensor};

fn whole(shape: &[usize]) -> Result<Tensor> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [1], ["tp"])?;
    tensor(&mesh, shape, &[Place::Replicated])
}

fn number(text: &str) -> Result<usize> {
    let wrong = |error| Error::new(ErrorKind::Argument, format!("'{text}' is no number")).with_source(error);
    text.parse().map_err(wrong)
}

/// A benchmark by its name, `matmul/N`: a product of two N by N matrices.
pub(super) fn matmul(name: &str) -> Result<Outcome> {
    let n = number(part(name, 1)?)?;
    let (lhs, rhs) = (whole(&[n, n])?, whole(&[n, n])?);
    let measured = measure(name, || sharding_ops::matmul(&lhs, &rhs))?;
    Ok(measured.with_bytes((3 * n * n * size_of::<f32>()) as u64).with_flops((2 * n * n * n) as u64).into())
}

/// A benchmark by its name, `attention/BxHxLxD`: every one of L queries of D numbers looks at L keys, in H heads of a batch of B.
pub(super) fn attention(name: &str) -> Result<Outcome> {
    let shape = part(name, 1)?.split('x').map(number).collect::<Result<Vec<usize>>>()?;
    let operand = || whole(&shape);
    let (query, key, value) = (operand()?, operand()?, operand()?);
    let attend = || sharding_ops::scaled_dot_product_attention(&query, &key, &value, None, false, None);
    let measured = measure(name, attend)?;
    let (elements, length) = (shape.iter().product::<usize>(), shape.get(2).copied().unwrap_or(1));
    Ok(measured
        .with_bytes((4 * elements * size_of::<f32>()) as u64)
        .with_flops((4 * elements * length) as u64)
        .into())
}
