//! What enters the first layer: word, position and token type embeddings, with a layer norm.

use sharding_ops::{Index, Tensor, add, embedding, slice};

use super::Source;
use super::layer_norm::LayerNorm;
use super::linear::signed;
use crate::Result;
use crate::moves::Moves;

/// The embedding tables.
pub(super) struct Embedding {
    /// `[word piece, hidden]`, split along the word pieces.
    words: Tensor,
    /// `[position, hidden]`, Replicated, with the first token type's embedding added: all tokens are of this type.
    positions: Tensor,
    norm: LayerNorm,
}

impl Embedding {
    pub(super) fn load(source: Source<'_>) -> Result<Self> {
        let Source { weights, config, mappings } = source;
        let (split, whole) = (mappings.split(0)?, mappings.whole());
        let table = |name: &str, rows: usize, mapping| {
            let shape = [rows, config.hidden_size];
            weights.tensor(&format!("embeddings.{name}_embeddings.weight"), &shape, &shape, mapping)
        };
        let words = table("word", config.vocab_size, &split)?;
        let positions = table("position", config.max_position_embeddings, &whole)?;
        let types = table("token_type", config.type_vocab_size, &whole)?;
        let positions = add(&positions, &rows(&types, 1)?)?;
        Ok(Self { words, positions, norm: LayerNorm::load(source, "embeddings.LayerNorm")? })
    }

    /// `i64[sentence, token]` to `[sentence, token, hidden]`.
    pub(super) fn forward(&self, ids: &Tensor, length: usize, moves: &Moves) -> Result<Tensor> {
        // A device knows the rows of its own word pieces and gives zeros for others.
        let words = moves.reduce("word embedding", &embedding(&self.words, ids)?)?;
        self.norm.forward(&add(&words, &rows(&self.positions, length)?)?)
    }
}

/// The first rows of a table.
fn rows(table: &Tensor, count: usize) -> Result<Tensor> {
    slice(table, &[Index::from(0..signed(count))])
}
