//! `rules [--check]`: lists the rows of every op, or proves them.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    proof::rules::run(&arguments)
}
