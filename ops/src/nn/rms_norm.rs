//! RMS norm with its weight.

use super::{NamedTensors, Parallel};
use crate::{LeafOps, rms_norm};
use sharding_core::state::Init;
use sharding_core::{Result, ShardedState, Tensor};

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
#[derive(Clone, Debug, ShardedState)]
pub struct RmsNorm {
    /// `[width]`, what the normalised values are multiplied by.
    #[sharding(placed)]
    pub weight: Tensor,
    /// What is added to the mean square; not negative.
    #[sharding(skip)]
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

    /// A layer of ones; or, where the state is loaded, of what the source has.
    ///
    /// # Errors
    /// As [`Leaf::build`](sharding_core::state::Leaf::build).
    pub fn init(init: &Init<'_, Self>, width: usize, parallel: &Parallel, eps: f64) -> Result<Self> {
        Ok(Self { weight: init.weight.shape([width]).mapping(&parallel.whole()).ones()?, eps })
    }

    /// `[.., width]` to the same.
    ///
    /// # Errors
    /// As [`rms_norm`](fn@crate::rms_norm).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        rms_norm(x, &self.weight, self.eps)
    }
}
