//! The parts of the example `encoder`: the sentence encoder all-MiniLM-L6-v2 with its real weights over a device mesh.
//!
//! A sentence becomes word pieces ([`tokenize`]), several of them a padded [`batch`], the [`model`] turns that into
//! hidden states, and [`pool`] these into one embedding a sentence. [`mappings`] says what lies where, and [`collectives`]
//! counts what moves between devices.

pub mod args;
pub mod batch;
pub mod check;
pub mod collectives;
pub mod config;
mod encoder;
mod files;
pub mod mappings;
pub mod model;
pub mod pool;
mod print;
mod progress;
#[cfg(test)]
mod scratch;
#[cfg(test)]
mod tiny;
pub mod tokenize;

use std::ffi::OsString;
use std::io::{self, Write};

use sharding_ops::{Error, ErrorKind, Result};

use args::{Args, Command};
use check::Reference;
pub use encoder::{Encoded, Encoder, LONGEST};
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
    let encoder = Encoder::load(&files, mappings)?;

    let given = args.sentences.len();
    let mut sentences = args.sentences.clone();
    sentences.extend(reference.iter().flat_map(|reference| reference.sentences.iter().cloned()));
    let encoded = encoder.encode(&sentences)?;

    if args.json {
        print::json(out, &args.sentences, &encoded).map_err(output_error)?;
    } else {
        print::sentences(out, &args.sentences, &encoded).map_err(output_error)?;
        print::costs(out, &encoder, &encoded)?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::sync::PoisonError;

    /// Runs with the tiny model: how it ended and what it printed, or the error's text.
    fn ran(scratch: &Scratch, arguments: &[&str]) -> std::result::Result<(Outcome, String), String> {
        let model = [OsString::from("--model"), scratch.path().into()];
        let mut out = Vec::new();
        let _others = tiny::LOADING.read().unwrap_or_else(PoisonError::into_inner);
        let outcome = run(model.into_iter().chain(arguments.iter().map(OsString::from)), &mut out);
        outcome.map(|outcome| (outcome, String::from_utf8(out).unwrap())).map_err(|error| error.to_string())
    }

    #[test]
    fn its_own_answers_pass_on_another_mesh_and_wrong_ones_fail() {
        let scratch = Scratch::new("run-check");
        tiny::write(&scratch);
        let sentences = ["red green", "", "blue blue blue blue blue blue blue blue"];
        let (_, printed) = ran(&scratch, &[&["--json"][..], &sentences].concat()).unwrap();
        let answers: Vec<serde_json::Value> =
            printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let column = |key: &str| answers.iter().map(|answer| answer[key].clone()).collect::<Vec<_>>();
        let mut reference = serde_json::json!({
            "sentences": column("sentence"),
            "token_ids": column("token_ids"),
            "embeddings": column("embedding"),
        });
        let checked = |reference: &serde_json::Value| {
            let file = scratch.write("reference.json", reference.to_string());
            ran(&scratch, &["--mesh", "tp=2", "--check", file.to_str().unwrap(), "a sentence more"]).unwrap()
        };
        let (outcome, printed) = checked(&reference);
        assert_eq!(outcome, Outcome::Done, "{printed}");
        assert_eq!(printed.lines().last(), Some("6 passed, 0 failed"));

        reference["embeddings"][1][0] = 2.0.into();
        let (outcome, printed) = checked(&reference);
        assert_eq!(outcome, Outcome::Differs);
        assert!(printed.contains("FAILED sentence 1 (\"\"): 1 of 12 elements"), "{printed}");
        assert_eq!(printed.lines().last(), Some("5 passed, 1 failed"));
    }

    #[test]
    fn it_prints_similarities_what_moved_memory_and_times() {
        let scratch = Scratch::new("run-print");
        tiny::write(&scratch);
        let (_, printed) = ran(&scratch, &["--mesh", "tp=2", "red", "red", "green blue"]).unwrap();
        let lines: Vec<&str> = printed.lines().collect();
        let row = |at: usize| lines[at].split_whitespace().collect::<Vec<_>>();
        assert_eq!(row(6), ["similarity", "(cosine):"]);
        assert_eq!(row(7), ["0", "1", "2"]);
        assert_eq!(row(8)[..3], ["0", "1.0000", "1.0000"]);
        assert_eq!(row(10)[1], row(8)[3]);
        for want in
            ["  word embedding     all_reduce(tp)       1", "  mlp                all_reduce(tp)       2"]
        {
            assert!(printed.contains(want), "{printed}");
        }
        assert!(printed.contains("  cpu:0 ") && printed.contains("  cpu:0/1 "), "{printed}");
        assert!(
            lines.last().unwrap().starts_with("batch 0: 3 x 4 tokens on DeviceMesh(tp=2): "),
            "{printed}"
        );
        let (_, printed) = ran(&scratch, &["red"]).unwrap();
        assert!(printed.contains("moved: nothing") && !printed.contains("similarity"), "{printed}");
    }

    #[test]
    fn every_mesh_prints_the_same_embeddings() {
        let scratch = Scratch::new("run-same");
        tiny::write(&scratch);
        let embeddings = |mesh: &str| -> Vec<f64> {
            let line = ["--json", "--mesh", mesh, "red green", "", "blue", "green blue red blue red red red"];
            let (_, printed) = ran(&scratch, &line).unwrap();
            let lines = printed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            lines
                .flat_map(|line| line["embedding"].as_array().unwrap().clone())
                .map(|value| value.as_f64().unwrap())
                .collect()
        };
        let want = embeddings("tp=1");
        assert_eq!(want.len(), 4 * 12);
        for mesh in ["tp=2", "tp=3", "tp=5", "dp=2,tp=2", "dp=3,tp=2"] {
            let got = embeddings(mesh);
            assert!(got.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-6), "{mesh}");
        }
    }

    #[test]
    fn what_is_wrong_with_the_model_is_said() {
        let scratch = Scratch::new("run-wrong");
        let files = tiny::write(&scratch);
        let check = |arguments: &[&str], want: &str| {
            let error = ran(&scratch, arguments).unwrap_err();
            assert!(error.contains(want), "{error}");
        };
        check(&["--check", "no/such/file"], "cannot read no/such/file");
        let whole = std::fs::read(&files.weights).unwrap();
        scratch.write("model.safetensors", &whole[..whole.len() - 1]);
        check(&["red"], "not a whole safetensors file");
        scratch.write("model.safetensors", &whole);
        let config = config::tests::tiny().to_string();
        scratch.write("config.json", config.replace("\"vocab_size\":13", "\"vocab_size\":12"));
        check(
            &["red"],
            "'embeddings.word_embeddings.weight' has the shape [13, 12], and config.json says [12, 12]",
        );
        for (layers, want) in [(1, "more layers than the 1"), (3, "no tensor 'encoder.layer.2.")] {
            let layers = format!("\"num_hidden_layers\":{layers}");
            scratch.write("config.json", config.replace("\"num_hidden_layers\":2", &layers));
            check(&["red"], want);
        }
        scratch.write("config.json", config.replace("\"intermediate_size\":10,", ""));
        check(&["red"], "missing field `intermediate_size`");
        scratch.write("config.json", config);
        scratch.write("tokenizer.json", tokenize::tests::tiny().replace("\"blue\":12", "\"blue\":13"));
        check(&["blue"], "the tokenizer gives the token 13, and the model has 13 word pieces");
        std::fs::remove_file(&files.tokenizer).unwrap();
        check(&["red"], "there is no tokenizer.json");
    }

    #[test]
    fn help_needs_no_model() {
        let mut out = Vec::new();
        assert_eq!(run([OsString::from("--help")], &mut out).unwrap(), Outcome::Done);
        assert_eq!(out, args::USAGE.as_bytes());
    }
}
