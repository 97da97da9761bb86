//! Layer norm over the hidden axis.

use sharding_ops::{Tensor, layer_norm};

use super::Source;
use crate::Result;

/// A layer norm with its scale and shift, both Replicated.
pub(super) struct LayerNorm {
    scale: Tensor,
    shift: Tensor,
    epsilon: f64,
}

impl LayerNorm {
    pub(super) fn load(Source { weights, config, mappings }: Source<'_>, name: &str) -> Result<Self> {
        let vector = |part: &str| {
            let shape = [config.hidden_size];
            weights.tensor(&format!("{name}.{part}"), &shape, &shape, &mappings.whole())
        };
        Ok(Self { scale: vector("weight")?, shift: vector("bias")?, epsilon: config.layer_norm_eps })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm(x, &self.scale, &self.shift, self.epsilon)
    }
}
