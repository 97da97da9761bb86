//! Batches: sentences of about one length, padded to the longest.

use sharding_ops::Tensor;

use crate::config::Config;
use crate::mappings::Mappings;
use crate::tokenize::Tokens;
use crate::{Result, wrong};

/// The most sentences in a batch.
pub const BATCH: usize = 32;

/// What is added to the attention score of padding: it leaves nothing of it, and is no infinity, of which a
/// difference would be no number.
const HIDDEN: f32 = f32::MIN;

/// The input of one forward pass.
pub struct Batch {
    /// Which sentence each row is.
    pub sentences: Vec<usize>,
    /// The longest sequence: the second extent.
    pub length: usize,
    /// `i64[sentence, token]`: rows of the word embedding table; 0 for padding.
    pub ids: Tensor,
    /// `f32[sentence, 1, 1, token]`: what is added to attention scores, 0 for a token.
    pub bias: Tensor,
    /// `f32[sentence, token, 1]`: the weight of a token in the mean over tokens, 0 for padding. The sum over a
    /// sentence is 1.
    pub share: Tensor,
}

/// The indices of the sentences of each batch: of similar length, so that little is padding.
pub fn plan(tokens: &[Tokens]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|sentence| tokens.get(*sentence).map_or(0, |tokens| tokens.ids.len()));
    order.chunks(BATCH).map(<[usize]>::to_vec).collect()
}

impl Batch {
    /// The batch of these sentences.
    ///
    /// # Errors
    /// If a token is not in the vocabulary of the model or a sequence too long for it.
    pub fn new(
        sentences: Vec<usize>,
        tokens: &[Tokens],
        config: &Config,
        mappings: &Mappings,
    ) -> Result<Self> {
        let rows: Vec<&[u32]> =
            sentences.iter().filter_map(|sentence| tokens.get(*sentence)).map(|row| &*row.ids).collect();
        let length = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        if length > config.max_position_embeddings {
            return Err(wrong(format!(
                "{length} tokens are more than the {} that the model has positions for",
                config.max_position_embeddings
            )));
        }
        let unknown = |id: &&u32| usize::try_from(**id).is_ok_and(|id| id >= config.vocab_size);
        if let Some(id) = rows.iter().flat_map(|row| row.iter()).find(unknown) {
            return Err(wrong(format!(
                "the tokenizer gives the token {id}, and the model has {} word pieces",
                config.vocab_size
            ))
            .with_fix("use the tokenizer.json and the config.json of one model"));
        }
        let mapping = mappings.batch()?;
        let count = rows.len();
        let place = |values: Vec<f32>, shape: &[usize]| Tensor::from_slice(&values, shape, &mapping);
        let padded = |token: &dyn Fn(&[u32]) -> f32, padding: f32| -> Vec<f32> {
            let row = |row: &&[u32]| {
                let filled = std::iter::repeat_n(token(row), row.len());
                filled.chain(std::iter::repeat_n(padding, length - row.len())).collect::<Vec<f32>>()
            };
            rows.iter().flat_map(row).collect()
        };
        let ids: Vec<i64> = rows
            .iter()
            .flat_map(|row| {
                row.iter().copied().map(i64::from).chain(std::iter::repeat_n(0, length - row.len()))
            })
            .collect();
        Ok(Self {
            length,
            ids: Tensor::from_slice(&ids, [count, length], &mapping)?,
            bias: place(padded(&|_| 0.0, HIDDEN), &[count, 1, 1, length])?,
            share: place(padded(&|row| 1.0 / row.len() as f32, 0.0), &[count, length, 1])?,
            sentences,
        })
    }
}
