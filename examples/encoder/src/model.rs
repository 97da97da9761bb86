//! The encoder: BERT's forward pass over a mesh.
//!
//! At `tp` = n every device computes its share of the heads and of the columns of each MLP. Activations between layers
//! are Replicated; what a device cannot know alone is summed by one all_reduce after the attention, one after the MLP,
//! and one after the word embedding, of whose table every device has some rows.

mod attention;
mod embedding;
mod layer_norm;
mod linear;
mod mlp;

use sharding_ops::{Tensor, add};

use crate::batch::Batch;
use crate::config::Config;
use crate::mappings::Mappings;
use crate::moves::Moves;
use crate::weights::Weights;
use crate::{Result, wrong};
use attention::Attention;
use embedding::Embedding;
use layer_norm::LayerNorm;
use mlp::Mlp;

/// A model on a mesh.
pub struct Model {
    embedding: Embedding,
    layers: Vec<Layer>,
}

/// A layer: attention and MLP, each with what it was given added to its result and a layer norm after that.
struct Layer {
    attention: Attention,
    attention_norm: LayerNorm,
    mlp: Mlp,
    mlp_norm: LayerNorm,
}

/// Where the parts of a model come from: a file, the sizes, and how weights lie.
#[derive(Clone, Copy)]
struct Source<'a> {
    weights: &'a Weights,
    config: &'a Config,
    mappings: &'a Mappings,
}

impl Model {
    /// Places the weights on the mesh.
    ///
    /// # Errors
    /// If there are more devices on `tp` than heads, or the weights are not of the sizes of the config, or of more layers.
    pub fn load(weights: &Weights, config: &Config, mappings: &Mappings) -> Result<Self> {
        if mappings.ways() > config.num_attention_heads {
            return Err(wrong(format!(
                "the {} attention heads cannot be split over {} devices: each needs at least one",
                config.num_attention_heads,
                mappings.ways()
            ))
            .with_mesh_axis("tp", mappings.ways())
            .with_fix(format!("--mesh tp={}, or fewer", config.num_attention_heads)));
        }
        if weights.has(&format!("encoder.layer.{}.output.dense.weight", config.num_hidden_layers)) {
            // It would run, and give embeddings of a shallower model.
            return Err(wrong(format!(
                "the weights have more layers than the {} of config.json",
                config.num_hidden_layers
            ))
            .with_fix("use the files of one model"));
        }
        let source = Source { weights, config, mappings };
        let layers =
            (0..config.num_hidden_layers).map(|i| Layer::load(source, &format!("encoder.layer.{i}")));
        Ok(Self { embedding: Embedding::load(source)?, layers: layers.collect::<Result<_>>()? })
    }

    /// The hidden states after the last layer, `[sentence, token, hidden]`; those of padding mean nothing.
    ///
    /// # Errors
    /// What an op says.
    pub fn forward(&self, batch: &Batch, moves: &Moves) -> Result<Tensor> {
        let mut x = self.embedding.forward(&batch.ids, batch.length, moves)?;
        for layer in &self.layers {
            x = layer.forward(&x, &batch.bias, moves)?;
        }
        Ok(x)
    }
}

impl Layer {
    fn load(source: Source<'_>, name: &str) -> Result<Self> {
        Ok(Self {
            attention: Attention::load(source, &format!("{name}.attention"))?,
            attention_norm: LayerNorm::load(source, &format!("{name}.attention.output.LayerNorm"))?,
            mlp: Mlp::load(source, name)?,
            mlp_norm: LayerNorm::load(source, &format!("{name}.output.LayerNorm"))?,
        })
    }

    fn forward(&self, x: &Tensor, bias: &Tensor, moves: &Moves) -> Result<Tensor> {
        let x = self.attention_norm.forward(&add(&self.attention.forward(x, bias, moves)?, x)?)?;
        self.mlp_norm.forward(&add(&self.mlp.forward(&x, moves)?, &x)?)
    }
}
