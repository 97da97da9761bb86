//! The whole way from sentences to embeddings.

use std::time::{Duration, Instant};

use sharding_core::Scope;
use sharding_core::plan::Policy;

use crate::batch::{self, Batch};
use crate::config::Config;
use crate::files::ModelFiles;
use crate::mappings::Mappings;
use crate::model::Model;
use crate::moves::Moves;
use crate::pool::pool;
use crate::tokenize::{Tokenizer, Tokens};
use crate::weights::Weights;
use crate::{Result, wrong};

/// The most tokens of a sentence that are looked at; the model was trained with no longer ones.
pub const LONGEST: usize = 256;

/// A model with its tokenizer.
pub struct Encoder {
    config: Config,
    tokenizer: Tokenizer,
    model: Model,
    mappings: Mappings,
    moves: Moves,
}

/// What came of some sentences.
#[derive(Clone, Debug, Default)]
pub struct Encoded {
    /// The tokens of each sentence.
    pub tokens: Vec<Tokens>,
    /// The embedding of each sentence, of length 1.
    pub embeddings: Vec<Vec<f32>>,
    /// Sentences, tokens of the longest, and time of each batch.
    pub batches: Vec<(usize, usize, Duration)>,
}

impl Encoder {
    /// Loads a model onto a mesh.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others or the mesh.
    pub fn load(files: &ModelFiles, mappings: Mappings, moves: Moves) -> Result<Self> {
        let config = Config::read(&files.config)?;
        let tokenizer = Tokenizer::read(&files.tokenizer, LONGEST.min(config.max_position_embeddings))?;
        let weights = Weights::open(&files.weights)?;
        let model = Model::load(&weights, &config, &mappings)?;
        Ok(Self { config, tokenizer, model, mappings, moves })
    }

    /// The embeddings of sentences, computed in batches.
    ///
    /// # Errors
    /// If a sentence has tokens that the model does not know, or an op fails.
    pub fn encode(&self, sentences: &[String]) -> Result<Encoded> {
        let tokens = sentences
            .iter()
            .map(|sentence| self.tokenizer.tokens(sentence))
            .collect::<Result<Vec<Tokens>>>()?;
        let mut encoded = Encoded { embeddings: vec![Vec::new(); tokens.len()], ..Encoded::default() };
        for sentences in batch::plan(&tokens) {
            let start = Instant::now();
            let batch = Batch::new(sentences, &tokens, &self.config, &self.mappings)?;
            let embeddings = self.scope().enter(|| self.forward(&batch))?;
            let time = start.elapsed();
            if embeddings.len() != batch.sentences.len() {
                return Err(wrong("the model gave another number of embeddings than it was given sentences"));
            }
            encoded.batches.push((batch.sentences.len(), batch.length, time));
            for (sentence, embedding) in batch.sentences.iter().zip(embeddings) {
                if let Some(slot) = encoded.embeddings.get_mut(*sentence) {
                    *slot = embedding;
                }
            }
        }
        encoded.tokens = tokens;
        Ok(encoded)
    }

    fn forward(&self, batch: &Batch) -> Result<Vec<Vec<f32>>> {
        pool(&self.model.forward(batch, &self.moves)?, &batch.share, &self.moves)
    }

    /// Ops may move what they need, and say so: the model is written such that they need nothing.
    fn scope(&self) -> Scope {
        let scope = (*Scope::current()).clone().with_policy(Policy::warn());
        match self.moves.recorder() {
            Some(recorder) => scope.with_recorder(recorder),
            None => scope,
        }
    }

    /// How the model lies on the mesh.
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// What moved so far.
    pub fn moves(&self) -> &Moves {
        &self.moves
    }
}
