//! RMS norm with its weight.

use super::{NamedTensors, Parallel};
use crate::rms_norm;
use sharding_core::{Result, Tensor};

/// `x / sqrt(mean(x²) + eps) * weight` over the last axis (Zhang and Sennrich, Root Mean Square Layer Normalization, 2019).
/// The weight is Replicated; `x` may lie in any way: where its last axis is split, one small all_reduce brings the mean
/// together.
///
/// ```
/// use sharding_ops::nn::RmsNorm;
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let norm = RmsNorm { weight: full([2], 5.0, DType::F32, &DeviceMapping::replicated(&mesh))?, eps: 0.0 };
/// let x = Tensor::from_slice(&[1.0_f32, 7.0], [1, 2], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// assert_eq!(norm.forward(&x)?.to_vec::<f32>()?, [1.0, 7.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// `[width]`, what the normalised values are multiplied by.
    pub weight: Tensor,
    /// What is added to the mean square; not negative.
    pub eps: f64,
}

impl RmsNorm {
    /// Loads `NAME.weight`.
    ///
    /// # Errors
    /// What the source says.
    pub fn load(source: &impl NamedTensors, name: &str, parallel: &Parallel, eps: f64) -> Result<Self> {
        Ok(Self { weight: source.tensor(&format!("{name}.weight"), &parallel.whole())?, eps })
    }

    /// `[.., width]` to the same.
    ///
    /// # Errors
    /// As [`rms_norm`](fn@crate::rms_norm).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        rms_norm(x, &self.weight, self.eps)
    }
}
