//! `cargo xtask bench`: how long dispatch, planning and redistribution take, and a real model.

mod dispatch;
mod encoder;
mod measure;
mod planning;

use crate::print::line;
use measure::Measured;
use sharding_core::Result;
use std::process::ExitCode;

/// A benchmark: its name, and what sets it up and measures it.
type Bench = (&'static str, fn(&str) -> Result<Outcome>);

/// What came of a benchmark.
enum Outcome {
    /// It ran.
    Measured(Measured),
    /// It has not what it needs, for this reason.
    Skipped(String),
}

impl From<Measured> for Outcome {
    fn from(measured: Measured) -> Self {
        Self::Measured(measured)
    }
}

const BENCHES: [Bench; 12] = [
    ("dispatch/add/2", |name| dispatch::add(name).map(Outcome::from)),
    ("dispatch/matmul_relu/2", |name| dispatch::matmul_relu(name).map(Outcome::from)),
    ("plan/matmul/cold", |name| planning::cold(name).map(Outcome::from)),
    ("plan/matmul/cached", |name| planning::cached(name).map(Outcome::from)),
    ("plan/matmul/cached/1M-devices", |name| planning::cached_on_a_million_devices(name).map(Outcome::from)),
    ("redistribute/plan/4-axes", |name| planning::redistribution(name).map(Outcome::from)),
    ("encoder/tp1/1x16", encoder::forward),
    ("encoder/tp1/8x64", encoder::forward),
    ("encoder/tp1/32x128", encoder::forward),
    ("encoder/tp2/1x16", encoder::forward),
    ("encoder/tp2/8x64", encoder::forward),
    ("encoder/tp2/32x128", encoder::forward),
];

/// Measures the benchmarks whose names begin with the one given, or all. Prints a line each: text, or with `--json` one
/// JSON object (`name`, `seconds` as median, `min`, `iterations`, optional `bytes` and `flops`). What a benchmark lacks to run
/// is said on the error stream, as `SKIPPED name: reason`.
///
/// The exit status is 1 if a benchmark cannot run, 2 for a name that there is none of.
pub fn run(arguments: &[String]) -> ExitCode {
    let json = arguments.iter().any(|argument| argument == "--json");
    let names: Vec<&String> = arguments.iter().filter(|argument| *argument != "--json").collect();
    let chosen: Vec<&Bench> = BENCHES
        .iter()
        .filter(|(name, _)| names.is_empty() || names.iter().any(|n| name.starts_with(*n)))
        .collect();
    if chosen.is_empty() {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
        eprintln!("bench: no benchmark begins with {names:?}; there are {}", known.join(", "));
        return ExitCode::from(2);
    }
    let mut failed = false;
    for (name, bench) in chosen {
        match bench(name) {
            Ok(Outcome::Measured(measured)) if json => line(measured.json()),
            Ok(Outcome::Measured(measured)) => line(measured),
            Ok(Outcome::Skipped(reason)) => eprintln!("SKIPPED {name}: {reason}"),
            Err(error) => {
                eprintln!("bench: {name} cannot run: {error}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::from(1) } else { ExitCode::SUCCESS }
}
