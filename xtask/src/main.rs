//! The project's tasks, run as `cargo xtask COMMAND`.
//!
//! One command, one file. A command answers `Ok(true)` when it succeeded, `Ok(false)` when it ran and what it looked
//! at is not right (it has printed what), and an error when it could not run.

mod bench;
mod ci;
mod comm;
mod features;
mod fuzz;
mod golden;
mod metadata;
mod model;
mod peers;
mod rules;
mod run;
mod test;
mod tidy;

use std::process::ExitCode;

use run::Result;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test                 what a contributor runs: the matrix of feature sets, the encoder and two examples
  ci [--without-test]  everything, cheapest first; stops at the first stage that fails
  test --deep          models of threads in every order, unsafe code under a sanitizer, and a longer run of the fuzzer
  fuzz [--seconds N] [TARGET...]
                       tries texts and files from outside that nobody thought of (default: 10 seconds for each target)
  tidy                 layering, file names, docs that name what exists, reasons for unsafe code
  golden [FILE...]     replays reference cases of other systems (default: tests/golden)
  rules [--check]      lists the sharding rules; with --check proves every row
  comm [--check]       writes comm.lock, what the examples move; with --check compares
  bench [--json] [NAME...]
                       measures dispatch, planning, redistribution and kernels
  bench --peers [--max] [--venv DIR] [NAME...]
                       the same work beside PyTorch, JAX and (--max) MAX from the Python index; prints ratios
  model [--path]       downloads and caches all-MiniLM-L6-v2; with --path only says where it is
  help                 this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command that the arguments name.
fn command(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => test::run(),
        ["test", "--deep"] => test::deep(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["ci"] => ci::run(ci::Matrix::Run),
        ["ci", "--without-test"] => ci::run(ci::Matrix::LeaveOut),
        ["tidy"] => tidy::run(),
        ["golden", files @ ..] => golden::run(files),
        ["rules", rest @ ..] => rules::run(rest),
        ["comm"] => comm::run(&[]),
        ["comm", "--check"] => comm::run(&["--check"]),
        ["bench", rest @ ..] => bench::run(rest),
        ["model"] => model::fetch(),
        ["model", "--path"] => model::print_path(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        [] => Err(format!("a command is missing\n{USAGE}").into()),
        _ => Err(format!("cannot understand `{}`\n{USAGE}", words.join(" ")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_command_is_an_error_that_shows_the_usage() {
        for line in ["", "tset", "test --fast", "ci --quick", "model --force"] {
            let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
            let error = command(&arguments).unwrap_err().to_string();
            assert!(error.contains("usage: cargo xtask"), "{line}: {error}");
        }
    }
}
