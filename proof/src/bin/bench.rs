//! `bench [--json] [NAME]`: measures dispatch, planning, redistribution and the encoder.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    proof::bench::run(&arguments)
}
