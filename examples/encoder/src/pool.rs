//! From hidden states to one embedding a sentence.

use sharding_ops::{DeviceMapping, Tensor, div, maximum, mul, sqrt, sum};

use crate::Result;
use crate::collectives::place;

/// The shortest vector that is divided by its length; a shorter one is divided by this, as PyTorch's `normalize` does.
const SHORTEST: f64 = 1e-12;

/// The mean of `[sentence, token, hidden]` over tokens, by the `share` of each token, scaled to the length 1. Every device
/// does its own sentences; then they are brought together.
///
/// # Errors
/// What an op says.
pub fn pool(hidden: &Tensor, share: &Tensor) -> Result<Tensor> {
    place!("pooling").in_scope(|| {
        let mean = normalized(&sum(&mul(hidden, share)?, 1, false)?)?;
        mean.transfer_to(&DeviceMapping::replicated(mean.mesh()))
    })
}

/// The embeddings of a pooled batch, one a sentence.
///
/// # Errors
/// If the devices hold no data.
pub fn rows(pooled: &Tensor) -> Result<Vec<Vec<f32>>> {
    let width = pooled.shape().get(1).copied().unwrap_or(0).max(1);
    Ok(pooled.to_vec::<f32>()?.chunks(width).map(<[f32]>::to_vec).collect())
}

/// Rows divided by their lengths.
fn normalized(x: &Tensor) -> Result<Tensor> {
    let length = sqrt(&sum(&mul(x, x)?, -1, true)?)?;
    div(x, &maximum(&length, SHORTEST)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_ops::{BackendKind, DeviceMesh};

    #[test]
    fn a_vector_gets_the_length_one_unless_it_has_none() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["dp"]).unwrap();
        let whole = DeviceMapping::replicated(&mesh);
        let x = Tensor::from_slice(&[3.0_f32, -4.0, 0.0, 0.0], [2, 2], &whole).unwrap();
        let got = normalized(&x).unwrap().to_vec::<f32>().unwrap();
        assert!(
            got.iter().zip([0.6, -0.8, 0.0, 0.0]).all(|(got, want)| (got - want).abs() < 1e-6),
            "{got:?}"
        );
    }
}
