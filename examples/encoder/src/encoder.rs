//! The whole way from sentences to embeddings.

use std::time::{Duration, Instant};

use sharding_ops::{Policy, Scope};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::tiny;

    const SENTENCES: [&str; 5] = ["red green blue", "", "red", "blue blue red green red", "green pink"];

    fn encoder(test: &str, mesh: &str) -> Encoder {
        let scratch = Scratch::new(test);
        let files = tiny::write(&scratch);
        Encoder::load(&files, Mappings::parse(mesh).unwrap(), Moves::recorded()).unwrap()
    }

    fn embeddings(encoder: &Encoder, sentences: &[&str]) -> Vec<Vec<f32>> {
        let sentences: Vec<String> = sentences.iter().map(|sentence| (*sentence).to_owned()).collect();
        encoder.encode(&sentences).unwrap().embeddings
    }

    fn assert_close(got: &[Vec<f32>], want: &[Vec<f32>], what: &str) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((got - want).abs() < 1e-6, "{what}: {got} is not {want}");
        }
    }

    #[test]
    fn every_mesh_gives_the_same_embeddings() {
        let want = embeddings(&encoder("mesh", "tp=1"), &SENTENCES);
        for mesh in ["tp=2", "tp=3", "tp=4", "tp=5", "tp=6", "dp=2", "dp=2,tp=2", "tp=2,dp=3", "dp=7,tp=4"] {
            assert_close(&embeddings(&encoder("mesh", mesh), &SENTENCES), &want, mesh);
        }
    }

    #[test]
    fn only_partial_sums_move() {
        let encoder = encoder("moves", "tp=2");
        embeddings(&encoder, &SENTENCES);
        let all_reduce = |place: &str, times| (place.to_owned(), "all_reduce(tp)".to_owned(), times);
        assert_eq!(
            encoder.moves().counts(),
            [all_reduce("attention", 2), all_reduce("mlp", 2), all_reduce("word embedding", 1)]
        );
    }

    #[test]
    fn a_sentence_does_not_depend_on_those_beside_it() {
        let encoder = encoder("alone", "tp=2");
        let alone: Vec<Vec<f32>> =
            SENTENCES.iter().flat_map(|sentence| embeddings(&encoder, &[sentence])).collect();
        assert_close(&embeddings(&encoder, &SENTENCES), &alone, "alone");
        let many: Vec<&str> = SENTENCES.iter().copied().cycle().take(3 * batch::BATCH + 1).collect();
        let want: Vec<Vec<f32>> = alone.iter().cloned().cycle().take(many.len()).collect();
        assert_close(&embeddings(&encoder, &many), &want, "several batches");
    }

    #[test]
    fn embeddings_have_the_length_one_and_differ() {
        let got = embeddings(&encoder("length", "tp=2"), &SENTENCES);
        for (i, embedding) in got.iter().enumerate() {
            let square: f32 = embedding.iter().map(|value| value * value).sum();
            assert!((square - 1.0).abs() < 1e-5, "{square}");
            assert!(got[..i].iter().all(|other| other != embedding));
        }
    }

    #[test]
    fn no_sentence_is_no_embedding() {
        assert!(embeddings(&encoder("none", "tp=2"), &[]).is_empty());
    }
}
