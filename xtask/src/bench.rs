//! `bench`: measures dispatch, planning, redistribution, kernels and the encoder; with `--peers` beside other systems.

use crate::peers;
use crate::run::{self, Result};

/// Runs the program with its own arguments (`--json`: one object a line), or the comparison.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    match arguments {
        ["--peers", rest @ ..] => peers::run(rest),
        _ => run::succeeds(run::proof("bench").args(arguments)),
    }
}
