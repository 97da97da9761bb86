//! `golden [FILE...]`: replays reference cases of other systems; see `tests/golden/README.md`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    proof::golden::run(&files)
}
