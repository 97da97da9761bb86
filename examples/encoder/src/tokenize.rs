//! `tokenizer.json`: sentences to token ids.

use std::path::Path;

use tokenizers::{Tokenizer as Inner, TruncationParams};

use crate::files::read_text;
use crate::{Error, Result, wrong};

/// The fewest tokens that a limit may allow: `[CLS]` and `[SEP]`.
const FEWEST: usize = 2;

/// Word pieces of one sentence, `[CLS]` and `[SEP]` included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Their rows in the word embedding table.
    pub ids: Vec<u32>,
    /// Whether the sentence was longer than allowed.
    pub cut: bool,
}

/// A tokenizer with a limit to the length.
pub struct Tokenizer {
    inner: Inner,
    path: String,
}

impl Tokenizer {
    /// Reads a file. Sentences are cut to `longest` tokens; what the file itself says about cutting and padding is not
    /// used.
    ///
    /// # Errors
    /// If the file cannot be read or is no tokenizer, or there is no room for `[CLS]` and `[SEP]`.
    pub fn read(path: &Path, longest: usize) -> Result<Self> {
        let text = read_text(path)?;
        Self::parse(&text, longest).map(|inner| Self { inner, path: path.display().to_string() }).map_err(
            |error| {
                wrong(format!("{} is not a tokenizer that can be used here", path.display()))
                    .with_source(error)
            },
        )
    }

    fn parse(text: &str, longest: usize) -> Result<Inner> {
        if longest < FEWEST {
            return Err(wrong(format!("{longest} tokens leave no room for [CLS] and [SEP]")));
        }
        let mut inner: Inner = text.parse().map_err(|error| wrong("it cannot be read").with_source(error))?;
        let truncation = TruncationParams { max_length: longest, ..TruncationParams::default() };
        inner.with_padding(None);
        inner
            .with_truncation(Some(truncation))
            .map_err(|error| wrong("no limit can be set").with_source(error))?;
        Ok(inner)
    }

    /// The tokens of a sentence, which may be empty.
    ///
    /// # Errors
    /// If the tokenizer fails, or gives no token at all.
    pub fn tokens(&self, sentence: &str) -> Result<Tokens> {
        let failed =
            |error: Error| wrong(format!("{} cannot read '{sentence}'", self.path)).with_source(error);
        let encoding = self
            .inner
            .encode_fast(sentence, true)
            .map_err(|error| failed(wrong("the tokenizer failed").with_source(error)))?;
        if encoding.is_empty() {
            // The mean over no token is not a number.
            return Err(failed(wrong("it gives no token, not even [CLS] and [SEP]")));
        }
        Ok(Tokens { ids: encoding.get_ids().to_vec(), cut: !encoding.get_overflowing().is_empty() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use serde_json::json;

    /// A word-level tokenizer of three words that cuts and pads on its own, as the model's does.
    pub(crate) fn tiny() -> String {
        json!({
            "version": "1.0",
            "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
            "padding": {
                "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
            },
            "added_tokens": [],
            "normalizer": null,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [
                    {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                ],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {
                    "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                    "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
                },
            },
            "decoder": null,
            "model": {
                "type": "WordLevel",
                "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "red": 4, "green": 5, "blue": 12},
                "unk_token": "[UNK]",
            },
        })
        .to_string()
    }

    fn tokens(sentence: &str, longest: usize) -> (Vec<u32>, bool) {
        let scratch = Scratch::new("tokenize");
        let path = scratch.write("tokenizer.json", tiny());
        let tokens = Tokenizer::read(&path, longest).unwrap().tokens(sentence).unwrap();
        (tokens.ids, tokens.cut)
    }

    #[test]
    fn a_sentence_is_cut_to_the_limit_and_keeps_both_ends() {
        assert_eq!(tokens("red blue pink green", 7), (vec![2, 4, 12, 1, 5, 3], false));
        assert_eq!(tokens("red blue pink green", 6), (vec![2, 4, 12, 1, 5, 3], false));
        assert_eq!(tokens("red blue pink green", 5), (vec![2, 4, 12, 1, 3], true));
        assert_eq!(tokens("red blue pink green", 2), (vec![2, 3], true));
    }

    #[test]
    fn an_empty_sentence_is_its_ends() {
        assert_eq!(tokens("", 256), (vec![2, 3], false));
        assert_eq!(tokens("  ", 2), (vec![2, 3], false));
    }

    #[test]
    fn mistakes_are_named() {
        let scratch = Scratch::new("tokenize-wrong");
        let check = |text: &str, longest: usize, want: &str| {
            let path = scratch.write("tokenizer.json", text);
            let error = Tokenizer::read(&path, longest).err().unwrap().to_string();
            assert!(error.contains(want) && error.contains("tokenizer.json"), "{error}");
        };
        check("{", 256, "cannot be read");
        check("{\"version\": \"1.0\"}", 256, "cannot be read");
        check(&tiny(), 1, "no room for [CLS] and [SEP]");
    }
}
