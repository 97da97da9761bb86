//! The whole way from sentences to embeddings.

use std::time::{Duration, Instant};

use sharding_checkpoint::WeightFile;
use sharding_ops::Device;

use crate::batch::{self, Batch};
use crate::collectives::Collectives;
use crate::config::Config;
use crate::files::ModelFiles;
use crate::mappings::Mappings;
use crate::model::Model;
use crate::pool::{pool, rows};
use crate::progress::{self, Told};
use crate::tokenize::{Tokenizer, Tokens};
use crate::{Result, wrong};

/// The most tokens of a sentence that are looked at; the model was trained with no longer ones.
pub const LONGEST: usize = 256;

/// A model with its tokenizer.
pub struct Encoder {
    config: Config,
    tokenizer: Tokenizer,
    model: Model,
    mappings: Mappings,
    collectives: Collectives,
    /// Bytes on each device when the weights were there.
    weights: Vec<(Device, u64)>,
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
    /// Loads a model onto a mesh: every device reads its own slice of each weight.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others or the mesh.
    pub fn load(files: &ModelFiles, mappings: Mappings) -> Result<Self> {
        let config = Config::read(&files.config)?;
        let tokenizer = Tokenizer::read(&files.tokenizer, LONGEST.min(config.max_position_embeddings))?;
        let weights = WeightFile::open(&files.weights)?;
        mappings.mesh().reset_peak_memory()?;
        let model = {
            let told = Told::new(&weights, config.tensors().len(), progress::bar);
            Model::load(&told, &config, mappings.parallel())?
        };
        let weights =
            mappings.mesh().memory()?.into_iter().map(|(device, memory)| (device, memory.live)).collect();
        Ok(Self { config, tokenizer, model, mappings, collectives: Collectives::default(), weights })
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
            let embeddings = self.collectives.count(|| self.forward(&batch))?;
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

    /// The embeddings of one batch of sentences that are tokens already, without a record of what moves: what a
    /// measurement calls.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn embed(&self, tokens: &[Tokens]) -> Result<Vec<Vec<f32>>> {
        let all = (0..tokens.len()).collect();
        self.forward(&Batch::new(all, tokens, &self.config, &self.mappings)?)
    }

    fn forward(&self, batch: &Batch) -> Result<Vec<Vec<f32>>> {
        // Ops may move what they need: the model is written such that they need nothing, and the table of collectives would
        // show it.
        rows(&pool(&self.model.forward(batch)?, &batch.share)?)
    }

    /// The bytes on each device: of the weights, and the most there were at once since they began to load.
    ///
    /// # Errors
    /// What the backend says.
    pub fn memory(&self) -> Result<Vec<(Device, u64, u64)>> {
        let now = self.mappings.mesh().memory()?;
        let both = self.weights.iter().zip(now);
        Ok(both.map(|((device, weights), (_, memory))| (*device, *weights, memory.peak)).collect())
    }

    /// The sizes of the model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How the model lies on the mesh.
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// What moved so far.
    pub fn collectives(&self) -> &Collectives {
        &self.collectives
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::tiny;
    use std::sync::PoisonError;

    const SENTENCES: [&str; 5] = ["red green blue", "", "red", "blue blue red green red", "green pink"];

    fn encoder(test: &str, mesh: &str) -> Encoder {
        let _others = tiny::LOADING.read().unwrap_or_else(PoisonError::into_inner);
        load(test, mesh)
    }

    fn load(test: &str, mesh: &str) -> Encoder {
        let scratch = Scratch::new(test);
        let files = tiny::write(&scratch);
        Encoder::load(&files, Mappings::parse(mesh).unwrap()).unwrap()
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
        for mesh in [
            "tp=2",
            "tp=3",
            "tp=4",
            "tp=5",
            "tp=6",
            "dp=2",
            "dp=2,tp=2",
            "tp=2,dp=3",
            "dp=7,tp=4",
            "tp=7",
            "tp=16",
        ] {
            assert_close(&embeddings(&encoder("mesh", mesh), &SENTENCES), &want, mesh);
        }
    }

    #[test]
    fn only_partial_sums_and_embeddings_move() {
        let ran = |mesh: &str| {
            let encoder = encoder("moves", mesh);
            embeddings(&encoder, &SENTENCES);
            let ran = encoder.collectives().ran();
            ran.into_iter().map(|(place, step, ran)| (place, step, ran.times)).collect::<Vec<_>>()
        };
        let step = |place, step: &str, times| (place, step.to_owned(), times);
        // Two layers.
        assert_eq!(
            ran("tp=2"),
            [
                step("attention", "all_reduce(tp)", 2),
                step("mlp", "all_reduce(tp)", 2),
                step("word embedding", "all_reduce(tp)", 1),
            ]
        );
        assert_eq!(ran("dp=2"), [step("pooling", "all_gather(dp)", 1)]);
        assert_eq!(
            ran("dp=3,tp=5"),
            [
                step("attention", "all_reduce(tp)", 2),
                step("mlp", "all_reduce(tp)", 2),
                step("pooling", "all_gather(dp)", 1),
                step("word embedding", "all_reduce(tp)", 1),
            ]
        );
    }

    #[test]
    fn weights_are_split_and_the_peak_is_above_them() {
        let _alone = tiny::LOADING.write().unwrap_or_else(PoisonError::into_inner);
        let memory = load("memory", "tp=2").memory().unwrap();
        assert_eq!(memory.len(), 2);
        assert!(memory.iter().all(|(_, weights, peak)| *weights > 0 && peak >= weights), "{memory:?}");
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
