//! `comm`: what the examples move between devices, pinned in `comm.lock`.

use crate::run::{self, Result};

/// Writes the file, or with `--check` compares it with what the examples move now.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let lock = run::root().join("comm.lock");
    // Not in release: nothing is computed, and the tests have built it so already.
    let mut command = run::cargo(["run", "-p", "proof", "--bin", "comm", "--"]);
    run::succeeds(command.arg(lock).args(arguments))
}
