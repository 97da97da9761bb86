//! The encoder: BERT's forward pass over a mesh, on the layers of `sharding_ops::nn`.
//!
//! At `tp` = n every device computes its share of the heads and of the columns of each MLP. Activations between layers
//! are Replicated; what a device cannot know alone is summed by one all_reduce after the attention, one after the MLP,
//! and one after the word embedding, of whose table every device has some rows.

use sharding_ops::nn::{
    Activation, Attention, Embedding, Heads, LayerNorm, Mlp, NamedTensors, Parallel, TableSplit,
};
use sharding_ops::{DType, Index, Tensor, add, slice};

use crate::batch::Batch;
use crate::collectives::place;
use crate::config::Config;
use crate::{Result, wrong};

/// A model on a mesh.
pub struct Model {
    /// `[word piece, hidden]`, split along the word pieces.
    words: Embedding,
    /// `[position, hidden]`, Replicated, with the first token type's embedding added: all tokens are of this type.
    positions: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

/// A layer: attention and MLP, each with what it was given added to its result and a layer norm after that.
struct Layer {
    attention: Attention,
    attention_norm: LayerNorm,
    mlp: Mlp,
    mlp_norm: LayerNorm,
}

impl Model {
    /// Places the weights on the mesh, every device its own.
    ///
    /// # Errors
    /// If the weights are not of the sizes of the config, not f32, or of more layers; else what the source says.
    pub fn load(weights: &impl NamedTensors, config: &Config, parallel: &Parallel) -> Result<Self> {
        check(weights, config)?;
        let norm = |name: &str| LayerNorm::load(weights, name, parallel, config.layer_norm_eps);
        let layer = |i: usize| -> Result<Layer> {
            let of = |part: &str| format!("encoder.layer.{i}.{part}");
            let [query, key, value] =
                ["query", "key", "value"].map(|part| of(&format!("attention.self.{part}")));
            let output = of("attention.output.dense");
            let heads = Heads::equal(config.num_attention_heads);
            let (up, down) = (of("intermediate.dense"), of("output.dense"));
            Ok(Layer {
                attention: Attention::load(weights, [&query, &key, &value, &output], parallel, heads)?,
                attention_norm: norm(&of("attention.output.LayerNorm"))?,
                mlp: Mlp::load(weights, &up, None, &down, parallel, Activation::Gelu)?,
                mlp_norm: norm(&of("output.LayerNorm"))?,
            })
        };
        let words = Embedding::load(weights, "embeddings.word_embeddings", parallel, TableSplit::Vocabulary)?;
        let table =
            |name: &str| weights.tensor(&format!("embeddings.{name}_embeddings.weight"), &parallel.whole());
        let positions = add(&table("position")?, &rows(&table("token_type")?, 1)?)?;
        let norm = norm("embeddings.LayerNorm")?;
        let layers = (0..config.num_hidden_layers).map(layer).collect::<Result<_>>()?;
        Ok(Self { words, positions, norm, layers })
    }

    /// The hidden states after the last layer, `[sentence, token, hidden]`; those of padding mean nothing.
    ///
    /// # Errors
    /// What an op says.
    pub fn forward(&self, batch: &Batch) -> Result<Tensor> {
        // A device knows the rows of its own word pieces and gives zeros for others.
        let words = place!("word embedding").in_scope(|| self.words.forward(&batch.ids))?;
        let mut x = self.norm.forward(&add(&words, &rows(&self.positions, batch.length)?)?)?;
        for layer in &self.layers {
            x = layer.forward(&x, &batch.bias)?;
        }
        Ok(x)
    }
}

impl Layer {
    fn forward(&self, x: &Tensor, bias: &Tensor) -> Result<Tensor> {
        let attended = place!("attention").in_scope(|| self.attention.forward(x, Some(bias)))?;
        let x = self.attention_norm.forward(&add(&attended, x)?)?;
        let mixed = place!("mlp").in_scope(|| self.mlp.forward(&x))?;
        self.mlp_norm.forward(&add(&mixed, &x)?)
    }
}

/// The first rows of a table.
fn rows(table: &Tensor, count: usize) -> Result<Tensor> {
    slice(table, &[Index::from(0..isize::try_from(count).unwrap_or(isize::MAX))])
}

/// Compares names, dtypes and shapes with the config, before any weight is read.
fn check(weights: &impl NamedTensors, config: &Config) -> Result<()> {
    for (name, shape) in config.tensors() {
        let meta = weights.meta(&name)?;
        if meta.dtype != DType::F32 {
            return Err(wrong(format!("'{name}' is {}; only f32 is read", meta.dtype)));
        }
        if *meta.shape != *shape {
            return Err(wrong(format!(
                "'{name}' has the shape {}, and config.json says {shape:?}",
                meta.shape
            ))
            .with_fix("use the files of one model"));
        }
    }
    if weights.contains(&format!("encoder.layer.{}.output.dense.weight", config.num_hidden_layers)) {
        // It would run, and give embeddings of a shallower model.
        return Err(wrong(format!(
            "the weights have more layers than the {} of config.json",
            config.num_hidden_layers
        ))
        .with_fix("use the files of one model"));
    }
    Ok(())
}
