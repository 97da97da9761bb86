//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Result, wrong};

/// What `--help` prints.
pub const USAGE: &str = "\
usage: encoder [--mesh MESH] [--model DIR] [--check FILE] [--json] [--] [SENTENCE..]

Computes the embeddings of sentences with all-MiniLM-L6-v2, its weights split over a device mesh. Prints how similar
the sentences are, the collectives that ran with the bytes that a device sent, the bytes that every device held, and
the time of each batch.

  --mesh MESH    axes and sizes of the mesh, as in tp=2 (weights split 2 ways) or dp=2,tp=2 (the sentences of a
                 batch split as well); any sizes, also those that divide nothing; tp=1 if it is not given
  --model DIR    a directory with model.safetensors, config.json and tokenizer.json; if it is not given, the one
                 that `cargo xtask model` fills
  --check FILE   compares token ids and embeddings with a JSON file of sentences, token_ids and embeddings
  --json         prints one JSON object a sentence, with the whole embedding, and of other lines only the
                 verdict of --check

A sentence of more than 256 tokens is cut to 256, [CLS] and [SEP] included. An empty sentence is legal: it is [CLS]
[SEP]. The exit status is 0, or 1 if a check fails, or 2 for an error.
";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Print [`USAGE`].
    Help,
    /// Compute embeddings.
    Run(Args),
}

/// How to compute embeddings, and of what.
#[derive(Debug, PartialEq, Eq)]
pub struct Args {
    /// The text of the mesh, as in `tp=2`.
    pub mesh: String,
    /// The directory of the model; `None` for that of `cargo xtask model`.
    pub model: Option<PathBuf>,
    /// The file to compare with.
    pub check: Option<PathBuf>,
    /// Whether to print JSON.
    pub json: bool,
    /// The sentences.
    pub sentences: Vec<String>,
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// For an unknown flag, a flag without its value or given twice, text that is not UTF-8, and if there is nothing to do.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command> {
    let mut rest = arguments.into_iter();
    let (mut mesh, mut model, mut check) = (None, None, None);
    let (mut json, mut only_sentences) = (false, false);
    let mut sentences = Vec::new();
    while let Some(argument) = rest.next() {
        let argument = text(argument)?;
        if only_sentences || !argument.starts_with("--") {
            sentences.push(argument);
            continue;
        }
        let (flag, mut value) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(OsString::from(value))),
            None => (argument.as_str(), None),
        };
        match flag {
            "--" if value.is_none() => only_sentences = true,
            "--help" if value.is_none() => return Ok(Command::Help),
            "--json" if value.is_none() => json = true,
            "--mesh" => set(&mut mesh, flag, value.take().or_else(|| rest.next()))?,
            "--model" => set(&mut model, flag, value.take().or_else(|| rest.next()))?,
            "--check" => set(&mut check, flag, value.take().or_else(|| rest.next()))?,
            _ => {
                return Err(wrong(format!("there is no flag '{argument}'")).with_fix(
                    "encoder --help lists the flags; write -- before sentences that begin with --",
                ));
            }
        }
    }
    if sentences.is_empty() && check.is_none() {
        return Err(wrong("there is no sentence and no file to check")
            .with_fix("encoder --mesh tp=2 \"a real sentence\", or encoder --help"));
    }
    let mesh = mesh.map_or_else(|| Ok("tp=1".to_owned()), text)?;
    let (model, check) = (model.map(PathBuf::from), check.map(PathBuf::from));
    Ok(Command::Run(Args { mesh, model, check, json, sentences }))
}

fn text(argument: OsString) -> Result<String> {
    argument.into_string().map_err(|argument| wrong(format!("the argument {argument:?} is not UTF-8")))
}

/// Sets a flag that takes a value, once.
fn set(slot: &mut Option<OsString>, flag: &str, value: Option<OsString>) -> Result<()> {
    match value {
        None => Err(wrong(format!("{flag} needs a value")).with_fix("encoder --help lists the flags")),
        Some(_) if slot.is_some() => Err(wrong(format!("{flag} is given twice"))),
        Some(value) => {
            *slot = Some(value);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Command> {
        parse(line.iter().map(OsString::from))
    }

    fn args(line: &[&str]) -> Args {
        match parsed(line).unwrap() {
            Command::Run(args) => args,
            Command::Help => panic!("help"),
        }
    }

    #[test]
    fn flags_and_sentences_stand_in_any_order() {
        let want = Args {
            mesh: "dp=2,tp=2".to_owned(),
            model: Some("m".into()),
            check: Some("f".into()),
            json: true,
            sentences: vec!["one".to_owned(), String::new(), "--two".to_owned()],
        };
        let line = ["one", "--mesh=dp=2,tp=2", "", "--model", "m", "--check", "f", "--json", "--", "--two"];
        assert_eq!(args(&line), want);
        assert_eq!(args(&["a"]).mesh, "tp=1");
        assert_eq!(parsed(&["--help"]).unwrap(), Command::Help);
    }

    #[test]
    fn mistakes_are_named() {
        let check = |line: &[&str], want: &str| {
            let error = parsed(line).unwrap_err().to_string();
            assert!(error.contains(want), "{line:?} gave: {error}");
        };
        check(&["--mush", "tp=2", "a"], "no flag '--mush'");
        check(&["--json=yes", "a"], "no flag '--json=yes'");
        check(&["a", "--mesh"], "--mesh needs a value");
        check(&["--model", "a", "--model", "b", "c"], "--model is given twice");
        check(&["--mesh", "tp=2"], "no sentence");
        check(&[], "no sentence");
    }

    #[cfg(unix)]
    #[test]
    fn text_that_is_not_utf8_is_an_error() {
        use std::os::unix::ffi::OsStringExt;
        let error = parse([OsString::from_vec(vec![0xff])]).unwrap_err().to_string();
        assert!(error.contains("not UTF-8"), "{error}");
    }
}
