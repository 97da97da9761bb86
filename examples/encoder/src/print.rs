//! What the program says.

use std::io::{self, Write};

use serde_json::json;

use crate::encoder::{Encoded, Encoder};

/// How many elements of an embedding stand for it where people read.
const SHOWN: usize = 6;

/// The embeddings of the sentences, which are the first of those encoded.
pub(crate) fn embeddings(
    out: &mut impl Write,
    json: bool,
    sentences: &[String],
    encoded: &Encoded,
) -> io::Result<()> {
    for ((sentence, tokens), embedding) in sentences.iter().zip(&encoded.tokens).zip(&encoded.embeddings) {
        if json {
            let line = json!({"sentence": sentence, "token_ids": tokens.ids, "embedding": embedding});
            writeln!(out, "{line}")?;
            continue;
        }
        let cut = if tokens.cut { ", the rest was cut" } else { "" };
        writeln!(out, "{}: {} tokens{cut}", shortened(sentence), tokens.ids.len())?;
        write!(out, "  [")?;
        for value in embedding.iter().take(SHOWN) {
            write!(out, "{value:.6}, ")?;
        }
        writeln!(out, "..] {} elements", embedding.len())?;
    }
    Ok(())
}

/// The time of each batch and, if it was recorded, what moved. Beside JSON nothing else is printed.
pub(crate) fn batches(
    out: &mut impl Write,
    json: bool,
    encoder: &Encoder,
    encoded: &Encoded,
) -> io::Result<()> {
    if json {
        return Ok(());
    }
    write!(out, "{}", encoder.moves())?;
    for (i, (sentences, length, time)) in encoded.batches.iter().enumerate() {
        writeln!(
            out,
            "batch {i}: {sentences} x {length} tokens on {}: {:.1} ms",
            encoder.mappings().mesh(),
            time.as_secs_f64() * 1e3
        )?;
    }
    Ok(())
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
