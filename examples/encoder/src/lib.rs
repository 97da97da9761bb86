//! The parts of the example `encoder`: the sentence encoder all-MiniLM-L6-v2 with its real weights over a device mesh.
//!
//! A sentence becomes word pieces ([`tokenize`]), several of them a padded [`batch`], the [`model`] turns that into
//! hidden states, and [`pool`] these into one embedding a sentence. [`mappings`] says what lies where, and [`moves`]
//! has every move between devices.

pub mod args;
pub mod batch;
pub mod check;
pub mod config;
mod encoder;
mod files;
pub mod mappings;
pub mod model;
pub mod moves;
pub mod pool;
mod print;
#[cfg(test)]
mod scratch;
pub mod tokenize;
pub mod weights;

use std::ffi::OsString;
use std::io::{self, Write};

use sharding_core::{Error, ErrorKind, Result};

use args::{Args, Command};
use check::Reference;
pub use encoder::{Encoder, Encoded, LONGEST};
pub use files::ModelFiles;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything asked for is done, and what was checked agrees.
    Done,
    /// What was checked differs.
    Differs,
}

/// Does what the arguments say and writes to `out`.
///
/// # Errors
/// For wrong arguments, files that are missing or damaged, and whatever an op says.
pub fn run(arguments: impl IntoIterator<Item = OsString>, out: &mut impl Write) -> Result<Outcome> {
    match args::parse(arguments)? {
        Command::Help => {
            out.write_all(args::USAGE.as_bytes()).map_err(output_error)?;
            Ok(Outcome::Done)
        }
        Command::Run(args) => encode(&args, out),
    }
}

fn encode(args: &Args, out: &mut impl Write) -> Result<Outcome> {
    // What is cheap to find wrong comes first: loading the weights takes a while.
    let mappings = mappings::Mappings::parse(&args.mesh)?;
    let reference = args.check.as_deref().map(Reference::read).transpose()?;
    let files = ModelFiles::find(args.model.as_deref())?;
    let moves = if args.report { moves::Moves::recorded() } else { moves::Moves::default() };
    let encoder = Encoder::load(&files, mappings, moves)?;

    let given = args.sentences.len();
    let mut sentences = args.sentences.clone();
    sentences.extend(reference.iter().flat_map(|reference| reference.sentences.iter().cloned()));
    let encoded = encoder.encode(&sentences)?;

    print::embeddings(out, args.json, &args.sentences, &encoded).map_err(output_error)?;
    print::batches(out, args.json, &encoder, &encoded).map_err(output_error)?;
    let Some(reference) = reference else { return Ok(Outcome::Done) };
    let rest = |all: usize| given.min(all)..;
    let tokens = encoded.tokens.get(rest(encoded.tokens.len())).unwrap_or_default();
    let embeddings = encoded.embeddings.get(rest(encoded.embeddings.len())).unwrap_or_default();
    let verdict = reference.compare(tokens, embeddings);
    writeln!(out, "{verdict}").map_err(output_error)?;
    Ok(if verdict.is_success() { Outcome::Done } else { Outcome::Differs })
}

/// An error about what the user gave: arguments and files.
fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Argument, message)
}

/// The error for output that cannot be written.
pub fn output_error(error: io::Error) -> Error {
    wrong("cannot write the output").with_source(error)
}

/// Whether the error is that nobody reads the output any more.
pub fn is_broken_pipe(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|source| source.kind() == io::ErrorKind::BrokenPipe)
}
