//! What the program says.

use std::io::{self, Write};

use serde_json::json;

use crate::Result;
use crate::encoder::{Encoded, Encoder};

/// How many elements of an embedding stand for it where people read.
const SHOWN: usize = 6;

/// The embeddings of the sentences, which are the first of those encoded: one JSON object a line, every element with all
/// its digits.
pub(crate) fn json(out: &mut impl Write, sentences: &[String], encoded: &Encoded) -> io::Result<()> {
    for ((sentence, tokens), embedding) in sentences.iter().zip(&encoded.tokens).zip(&encoded.embeddings) {
        let line = json!({"sentence": sentence, "token_ids": tokens.ids, "embedding": embedding});
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The sentences with the beginning of their embeddings, and how similar they are to each other.
pub(crate) fn sentences(out: &mut impl Write, sentences: &[String], encoded: &Encoded) -> io::Result<()> {
    let all = sentences.iter().zip(&encoded.tokens).zip(&encoded.embeddings);
    for (i, ((sentence, tokens), embedding)) in all.enumerate() {
        let cut = if tokens.cut { ", the rest was cut" } else { "" };
        writeln!(out, "{i}: {}: {} tokens{cut}", shortened(sentence), tokens.ids.len())?;
        write!(out, "   [")?;
        for value in embedding.iter().take(SHOWN) {
            write!(out, "{value:.6}, ")?;
        }
        writeln!(out, "..] {} elements", embedding.len())?;
    }
    if sentences.len() > 1 {
        let given = encoded.embeddings.get(..sentences.len()).unwrap_or_default();
        write!(out, "similarity (cosine):\n      ")?;
        for i in 0..given.len() {
            write!(out, " {i:>7}")?;
        }
        writeln!(out)?;
        for (i, row) in similarities(given).iter().enumerate() {
            write!(out, "  {i:>4}")?;
            for value in row {
                write!(out, " {value:>7.4}")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// The cosine of the angle between each two embeddings, which have the length 1.
pub(crate) fn similarities(embeddings: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let dot = |a: &Vec<f32>, b: &Vec<f32>| a.iter().zip(b).map(|(a, b)| a * b).sum();
    embeddings.iter().map(|a| embeddings.iter().map(|b| dot(a, b)).collect()).collect()
}

/// What moved, what every device held, and the time of each batch.
pub(crate) fn costs(out: &mut impl Write, encoder: &Encoder, encoded: &Encoded) -> Result<()> {
    let memory = encoder.memory()?;
    let written = |out: &mut dyn Write| -> io::Result<()> {
        write!(out, "{}", encoder.collectives())?;
        writeln!(out, "device         weight bytes   peak bytes")?;
        for (device, weights, peak) in &memory {
            writeln!(out, "  {:<12} {weights:>12} {peak:>12}", device.to_string())?;
        }
        for (i, (sentences, length, time)) in encoded.batches.iter().enumerate() {
            writeln!(
                out,
                "batch {i}: {sentences} x {length} tokens on {}: {:.1} ms",
                encoder.mappings().mesh(),
                time.as_secs_f64() * 1e3
            )?;
        }
        Ok(())
    };
    written(out).map_err(crate::output_error)
}

/// The beginning of a sentence, on one line.
pub(crate) fn shortened(sentence: &str) -> String {
    const LONGEST: usize = 40;
    let mut short: String = sentence.chars().take(LONGEST).collect();
    if sentence.chars().nth(LONGEST).is_some() {
        short.push_str("..");
    }
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::similarities;

    #[test]
    fn a_sentence_is_like_itself() {
        let rows = similarities(&[vec![0.6, 0.8], vec![1.0, 0.0], vec![-0.6, -0.8]]);
        let want = [[1.0, 0.6, -1.0], [0.6, 1.0, -0.6], [-1.0, -0.6, 1.0]];
        assert!(
            rows.iter().flatten().zip(want.iter().flatten()).all(|(got, want)| (got - want).abs() < 1e-6)
        );
    }
}
