//! The real sentence encoder on one and on two simulated devices: whole batches, from token ids to embeddings.

use super::Outcome;
use super::measure::measure;
use encoder_example::config::Config;
use encoder_example::mappings::Mappings;
use encoder_example::tokenize::Tokens;
use encoder_example::{Encoder, ModelFiles};
use sharding_core::{Error, ErrorKind, Result};

/// The first and the last token of a sentence, `[CLS]` and `[SEP]`.
const ENDS: [u32; 2] = [101, 102];

/// A benchmark by its name, `encoder/tpN/SxT`: S sentences of T tokens over N devices.
pub(super) fn forward(name: &str) -> Result<Outcome> {
    let (ways, sentences, length) = parsed(name)
        .ok_or_else(|| Error::new(ErrorKind::Argument, format!("'{name}' is not like encoder/tp2/8x64")))?;
    let Ok(files) = ModelFiles::find(None) else {
        return Ok(Outcome::Skipped("run cargo xtask model".to_owned()));
    };
    let encoder = Encoder::load(&files, Mappings::parse(&format!("tp={ways}"))?)?;
    let tokens: Vec<Tokens> =
        (0..sentences).map(|i| sentence(i, length, encoder.config().vocab_size)).collect();
    let measured = measure(name, || encoder.embed(&tokens))?;
    Ok(measured.with_flops(flops(encoder.config(), sentences, length)).into())
}

fn parsed(name: &str) -> Option<(usize, usize, usize)> {
    let mut parts = name.split('/').skip(1);
    let ways = parts.next()?.strip_prefix("tp")?.parse().ok()?;
    let (sentences, length) = parts.next()?.split_once('x')?;
    Some((ways, sentences.parse().ok()?, length.parse().ok()?))
}

/// Tokens of which no two sentences have the same.
fn sentence(number: usize, length: usize, vocabulary: usize) -> Tokens {
    let word = |i: usize| ((number * 131 + i * 37) % vocabulary.max(1)) as u32;
    let [first, last] = ENDS;
    let words = (0..length.saturating_sub(ENDS.len())).map(word);
    Tokens { ids: std::iter::once(first).chain(words).chain([last]).collect(), cut: false }
}

/// Multiplications and additions of the products of matrices; the rest is little beside them.
fn flops(config: &Config, sentences: usize, length: usize) -> u64 {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let token = 2 * (4 * hidden * hidden + 2 * hidden * wide) + 4 * length * hidden;
    (config.num_hidden_layers * sentences * length * token) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_runs() {
        assert_eq!(parsed("encoder/tp2/32x128"), Some((2, 32, 128)));
        assert_eq!(parsed("encoder/tp2/32"), None);
        let ids = sentence(3, 16, 30522).ids;
        assert_eq!((ids.len(), ids[0], ids[15]), (16, 101, 102));
        assert_ne!(ids, sentence(4, 16, 30522).ids);
    }
}
