//! Comparison with answers of another program.

use std::fmt;
use std::path::Path;

use serde::Deserialize;

use crate::files::read_text;
use crate::print::shortened;
use crate::tokenize::Tokens;
use crate::{Result, wrong};

/// How far an element of an embedding may be from the wanted one.
const TOLERANCE: f64 = 2e-5;

/// Sentences with the answers that are wanted.
#[derive(Clone, Debug, Deserialize)]
pub struct Reference {
    /// The sentences.
    pub sentences: Vec<String>,
    /// The token ids of each, `[CLS]` and `[SEP]` included.
    token_ids: Vec<Vec<u32>>,
    /// The embedding of each.
    embeddings: Vec<Vec<f64>>,
}

/// What came out: one line a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    passed: usize,
    failures: Vec<String>,
}

impl Reference {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is not of the form, or has not one answer a sentence.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&read_text(path)?).map_err(|error| {
            wrong(format!("{} is no file to check with", path.display()))
                .with_source(error)
                .with_fix("a JSON object with sentences, token_ids and embeddings, one each a sentence")
        })
    }

    fn parse(text: &str) -> Result<Self> {
        let reference: Self =
            serde_json::from_str(text).map_err(|error| wrong("it cannot be read").with_source(error))?;
        let counts = [reference.sentences.len(), reference.token_ids.len(), reference.embeddings.len()];
        if counts.iter().any(|count| *count != reference.sentences.len()) {
            let [sentences, ids, embeddings] = counts;
            return Err(wrong(format!(
                "it has {sentences} sentences, {ids} lists of token ids and {embeddings} embeddings"
            )));
        }
        Ok(reference)
    }

    /// The wanted token ids of each sentence.
    pub fn token_ids(&self) -> &[Vec<u32>] {
        &self.token_ids
    }

    /// Compares token ids and embeddings: two answers a sentence.
    pub fn compare(&self, tokens: &[Tokens], embeddings: &[Vec<f32>]) -> Verdict {
        let mut verdict = Verdict::default();
        for (i, sentence) in self.sentences.iter().enumerate() {
            let name = format!("sentence {i} ({})", shortened(sentence));
            let ids = match (tokens.get(i), self.token_ids.get(i)) {
                (Some(got), Some(want)) => differing_ids(&got.ids, want),
                _ => Some("there are no token ids".to_owned()),
            };
            let values = match (embeddings.get(i), self.embeddings.get(i)) {
                (Some(got), Some(want)) => differing_values(got, want),
                _ => Some("there is no embedding".to_owned()),
            };
            for difference in [ids, values] {
                match difference {
                    None => verdict.passed += 1,
                    Some(difference) => verdict.failures.push(format!("{name}: {difference}")),
                }
            }
        }
        verdict
    }
}

impl Verdict {
    /// Whether nothing differs.
    pub fn is_success(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "FAILED {failure}")?;
        }
        write!(f, "{} passed, {} failed", self.passed, self.failures.len())
    }
}

fn differing_ids(got: &[u32], want: &[u32]) -> Option<String> {
    if got == want {
        return None;
    }
    let at = got.iter().zip(want).take_while(|(got, want)| got == want).count();
    let id = |ids: &[u32]| ids.get(at).map_or_else(|| "the end".to_owned(), u32::to_string);
    Some(format!(
        "token {at} differs: wanted {} of {} tokens, got {} of {}",
        id(want),
        want.len(),
        id(got),
        got.len()
    ))
}

fn differing_values(got: &[f32], want: &[f64]) -> Option<String> {
    if got.len() != want.len() {
        return Some(format!("wanted an embedding of {} elements, got {}", want.len(), got.len()));
    }
    let off = |(_, (got, want)): &(usize, (&f32, &f64))| {
        let distance = (f64::from(**got) - **want).abs();
        // What is no number is off as well.
        distance.is_nan() || distance > TOLERANCE
    };
    let mut wrong = got.iter().zip(want).enumerate().filter(off);
    let (at, (value, wanted)) = wrong.next()?;
    Some(format!(
        "{} of {} elements differ by more than {TOLERANCE:e}; the first at {at}: wanted {wanted}, got {value}",
        1 + wrong.count(),
        want.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"model": "m", "sentences": ["one", ""], "token_ids": [[2, 4, 3], [2, 3]],
        "embeddings": [[0.6, -0.8], [1.0, 0.0]]}"#;

    fn said(ids: [&[u32]; 2], embeddings: [&[f32]; 2]) -> String {
        let tokens = ids.map(|ids| Tokens { ids: ids.to_vec(), cut: false });
        let reference = Reference::parse(FILE).unwrap();
        reference.compare(&tokens, &embeddings.map(<[f32]>::to_vec)).to_string()
    }

    #[test]
    fn equal_answers_pass() {
        assert_eq!(said([&[2, 4, 3], &[2, 3]], [&[0.6, -0.8], &[1.0, 1.9e-5]]), "4 passed, 0 failed");
    }

    #[test]
    fn each_difference_is_one_line() {
        assert_eq!(
            said([&[2, 5, 3], &[2]], [&[0.6, f32::NAN], &[1.0, 2.1e-5]]),
            "FAILED sentence 0 (\"one\"): token 1 differs: wanted 4 of 3 tokens, got 5 of 3\n\
             FAILED sentence 0 (\"one\"): 1 of 2 elements differ by more than 2e-5; the first at 1: wanted -0.8, got NaN\n\
             FAILED sentence 1 (\"\"): token 1 differs: wanted 3 of 2 tokens, got the end of 1\n\
             FAILED sentence 1 (\"\"): 1 of 2 elements differ by more than 2e-5; the first at 1: wanted 0, got 0.000021\n\
             0 passed, 4 failed"
        );
        let short = said([&[2, 4, 3], &[2, 3]], [&[0.6], &[1.0, 0.0]]);
        assert!(short.contains("wanted an embedding of 2 elements, got 1"), "{short}");
    }

    #[test]
    fn a_missing_answer_fails() {
        let verdict = Reference::parse(FILE).unwrap().compare(&[], &[]);
        assert!(!verdict.is_success());
        assert!(verdict.to_string().ends_with("0 passed, 4 failed"));
    }

    #[test]
    fn a_file_of_another_form_is_an_error() {
        for text in ["", "[]", r#"{"sentences": []}"#, &FILE.replace("[2, 3]]", "]")] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
        let fewer = FILE.replace(", [1.0, 0.0]", "");
        let error = Reference::parse(&fewer).unwrap_err().to_string();
        assert!(error.contains("2 sentences, 2 lists of token ids and 1 embeddings"), "{error}");
    }
}
