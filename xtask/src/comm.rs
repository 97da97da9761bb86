//! `comm`: what the examples move between devices, pinned in `comm.lock`.

use crate::run::{self, Result};

/// Writes the file, or with `--check` compares it with what the examples move now.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let lock = run::root().join("comm.lock");
    run::succeeds(run::proof("comm").arg(lock).args(arguments))
}
