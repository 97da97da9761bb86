//! `rules`: lists the sharding rules, or proves every row of them.

use crate::run::{self, Result};

/// Runs the program with its own arguments (`--check`).
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    run::succeeds(run::proof("rules").args(arguments))
}
