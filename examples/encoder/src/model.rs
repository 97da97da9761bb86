//! The encoder: BERT's forward pass over a mesh, on the layers of `sharding_ops::nn`.
//!
//! At `tp` = n every device computes its share of the heads and of the columns of each MLP. Activations between layers
//! are Replicated; what a device cannot know alone is summed by one all_reduce after the attention, one after the MLP,
//! and one after the word embedding, of whose table every device has some rows.

use sharding_ops::nn::{
    Activation, Attention, Embedding, Heads, LayerNorm, Mlp, NamedTensors, Parallel, TableSplit,
};
use sharding_ops::state::{Init, Renamed};
use sharding_ops::{DType, Index, LeafOps, ShardedState, Tensor, add, sharded_load, slice};

use crate::batch::Batch;
use crate::collectives::place;
use crate::config::Config;
use crate::{Result, wrong};

/// A model on a mesh. Its tensors have the names of the file, but for those of the attention and the MLP: see
/// [`file_name`].
#[derive(ShardedState)]
#[sharding(crate = sharding_ops)]
pub struct Model {
    /// `[word piece, hidden]`, split along the word pieces.
    #[sharding(name = "embeddings.word_embeddings")]
    words: Embedding,
    /// `[position, hidden]`, Replicated, with the first token type's embedding added: all tokens are of this type.
    #[sharding(name = "embeddings.position_embeddings.weight")]
    positions: Tensor,
    /// `[token type, hidden]`: no longer there when its first row is added to the positions.
    #[sharding(name = "embeddings.token_type_embeddings.weight")]
    types: Option<Tensor>,
    #[sharding(name = "embeddings.LayerNorm")]
    norm: LayerNorm,
    #[sharding(name = "encoder.layer")]
    layers: Vec<Layer>,
}

/// A layer: attention and MLP, each with what it was given added to its result and a layer norm after that.
#[derive(ShardedState)]
#[sharding(crate = sharding_ops)]
struct Layer {
    attention: Attention,
    #[sharding(name = "attention.output.LayerNorm")]
    attention_norm: LayerNorm,
    mlp: Mlp,
    #[sharding(name = "output.LayerNorm")]
    mlp_norm: LayerNorm,
}

/// The name in BERT's files of a tensor of the model.
pub fn file_name(name: &str) -> String {
    let parts = [
        (".attention.query.", ".attention.self.query."),
        (".attention.key.", ".attention.self.key."),
        (".attention.value.", ".attention.self.value."),
        (".attention.output.", ".attention.output.dense."),
        (".mlp.up.", ".intermediate.dense."),
        (".mlp.down.", ".output.dense."),
    ];
    let renamed = parts.iter().find(|(own, _)| name.contains(own) && !name.contains(".LayerNorm."));
    renamed.map_or_else(|| name.to_owned(), |(own, file)| name.replace(own, file))
}

impl Model {
    /// Places the weights on the mesh, every device its own.
    ///
    /// # Errors
    /// If the weights are not of the sizes of the config, not f32, or of more layers; else what the source says.
    pub fn load(weights: &impl NamedTensors, config: &Config, parallel: &Parallel) -> Result<Self> {
        check(weights, config)?;
        let weights = Renamed::new(weights, file_name);
        sharded_load::<Self>(parallel.mesh(), &weights, |init| Self::new(init, config, parallel))
    }

    /// A model of the sizes of a config, for [`eager_sharded_init`](sharding_ops::eager_sharded_init) and the others.
    ///
    /// # Errors
    /// If a maker does.
    pub fn new(init: &Init<'_, Self>, config: &Config, parallel: &Parallel) -> Result<Self> {
        let (hidden, eps) = (config.hidden_size, config.layer_norm_eps);
        let words = [config.vocab_size, hidden];
        let words = Embedding::init(&init.words, words, parallel, TableSplit::Vocabulary)?;
        let positions = init.positions.shape([config.max_position_embeddings, hidden]).normal(0.0, 0.02)?;
        let types = init.types.shape([config.type_vocab_size, hidden]).normal(0.0, 0.02)?;
        Ok(Self {
            words,
            positions: add(&positions, &rows(&types, 1)?)?,
            types: None,
            norm: LayerNorm::init(&init.norm, hidden, parallel, eps)?,
            layers: init
                .layers
                .each(config.num_hidden_layers, |init, _| Layer::new(init, config, parallel))?,
        })
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
    fn new(init: &Init<'_, Self>, config: &Config, parallel: &Parallel) -> Result<Self> {
        let (hidden, eps) = (config.hidden_size, config.layer_norm_eps);
        let heads = Heads::equal(config.num_attention_heads);
        let sizes = [hidden, config.intermediate_size];
        Ok(Self {
            attention: Attention::init(
                &init.attention,
                hidden,
                parallel,
                heads,
                hidden / heads.query.max(1),
            )?,
            attention_norm: LayerNorm::init(&init.attention_norm, hidden, parallel, eps)?,
            mlp: Mlp::init(&init.mlp, sizes, false, parallel, Activation::Gelu)?,
            mlp_norm: LayerNorm::init(&init.mlp_norm, hidden, parallel, eps)?,
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use sharding_ops::{BackendKind, DeviceMesh, StateTensors, abstract_sharded_state, eager_sharded_init};
    use std::collections::BTreeSet;

    fn parallel(tp: usize) -> Parallel {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [tp], ["tp"]).unwrap();
        Parallel::along(&mesh, "tp").unwrap()
    }

    fn tiny() -> Config {
        Config::parse(&config::tests::tiny().to_string()).unwrap()
    }

    #[test]
    fn layouts_are_those_of_the_file() {
        let (config, parallel) = (tiny(), parallel(5));
        let layouts = abstract_sharded_state::<Model>(&parallel.mesh().to_abstract(), |init| {
            Model::new(init, &config, &parallel)
        });
        let layouts = layouts.unwrap();
        let mut have: BTreeSet<_> =
            layouts.iter().map(|x| (file_name(x.name()), x.meta().shape.to_vec())).collect();
        // It is added to the positions.
        let types = ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, 12]);
        assert!(have.insert(types));
        assert_eq!(have, config.tensors().into_iter().collect());
        // Six heads over five devices, of two elements each.
        let query = layouts.get("encoder.layer.1.attention.query.weight").unwrap();
        assert!(query.to_string().contains("[4, 2, 2, 2, 2]"), "{query}");
    }

    #[test]
    fn one_seed_is_one_model_on_every_mesh() {
        let config = tiny();
        let weights = |tp: usize| {
            let parallel = parallel(tp);
            let model =
                eager_sharded_init::<Model>(parallel.mesh(), 7, |init| Model::new(init, &config, &parallel));
            let all = model.unwrap();
            all.tensors().into_iter().map(|(name, x)| (name, x.to_vec::<f32>().unwrap())).collect::<Vec<_>>()
        };
        let want = weights(1);
        assert!(want.iter().all(|(_, values)| !values.is_empty()));
        assert_eq!(weights(2), want);
        assert_eq!(weights(5), want);
    }
}
