//! Layer norm with its weights.

use super::{NamedTensors, Parallel};
use crate::{LeafOps, layer_norm};
use sharding_core::state::Init;
use sharding_core::{Result, ShardedState, Tensor};

/// `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` over the last axis. Weight and bias are Replicated; `x` may lie in any
/// way: where its last axis is split, two small all_reduces bring the moments together.
///
/// ```
/// use sharding_ops::nn::LayerNorm;
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let whole = DeviceMapping::replicated(&mesh);
/// let (weight, bias) = (full([2], 1.0, DType::F32, &whole)?, full([2], 5.0, DType::F32, &whole)?);
/// let norm = LayerNorm { weight, bias, eps: 1e-12 };
/// let x = Tensor::from_slice(&[1.0_f32, 3.0], [1, 2], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// assert_eq!(norm.forward(&x)?.to_vec::<f32>()?, [4.0, 6.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
#[derive(Clone, Debug, ShardedState)]
pub struct LayerNorm {
    /// `[width]`, what the normalised values are multiplied by.
    #[sharding(placed)]
    pub weight: Tensor,
    /// `[width]`, what is then added.
    #[sharding(placed)]
    pub bias: Tensor,
    /// What is added to the variance; not negative.
    #[sharding(skip)]
    pub eps: f64,
}

impl LayerNorm {
    /// Loads `NAME.weight` and `NAME.bias`.
    ///
    /// # Errors
    /// What the source says.
    pub fn load(source: &impl NamedTensors, name: &str, parallel: &Parallel, eps: f64) -> Result<Self> {
        let vector = |part: &str| source.tensor(&format!("{name}.{part}"), &parallel.whole());
        Ok(Self { weight: vector("weight")?, bias: vector("bias")?, eps })
    }

    /// A layer of ones and zeros; or, where the state is loaded, of what the source has.
    ///
    /// # Errors
    /// As [`Leaf::build`](sharding_core::state::Leaf::build).
    pub fn init(init: &Init<'_, Self>, width: usize, parallel: &Parallel, eps: f64) -> Result<Self> {
        let whole = parallel.whole();
        let weight = init.weight.shape([width]).mapping(&whole).ones()?;
        Ok(Self { weight, bias: init.bias.shape([width]).mapping(&whole).zeros()?, eps })
    }

    /// `[.., width]` to the same.
    ///
    /// # Errors
    /// As [`layer_norm`](fn@crate::layer_norm).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm(x, &self.weight, &self.bias, self.eps)
    }
}
