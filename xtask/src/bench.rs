//! `bench`: measures dispatch, planning, redistribution and the encoder.

use crate::run::{self, Result};

/// Runs the program with its own arguments (`--json`: one object a line).
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    run::succeeds(run::proof("bench").args(arguments))
}
