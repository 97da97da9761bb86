//! `golden`: replays the reference cases of other systems.

use std::path::PathBuf;

use crate::run::{self, Result};

/// Runs the replay on the named files, or on those it finds itself. Its last line is `N passed, N failed`.
pub(crate) fn run(files: &[&str]) -> Result<bool> {
    let files = files.iter().map(|file| from_here(file)).collect::<Result<Vec<_>>>()?;
    run::succeeds(run::proof("golden").args(files))
}

/// A file named from the caller's directory, for a program that runs in the workspace's root.
fn from_here(file: &str) -> Result<PathBuf> {
    std::path::absolute(file).map_err(|error| format!("cannot use the path `{file}`: {error}").into())
}
