//! `cargo xtask bench`: how long dispatch, planning and redistribution take.

mod dispatch;
mod measure;
mod planning;

use crate::print::line;
use measure::Measured;
use sharding_core::Result;
use std::process::ExitCode;

/// A benchmark: its name, and what sets it up and measures it.
type Bench = (&'static str, fn(&str) -> Result<Measured>);

const BENCHES: [Bench; 6] = [
    ("dispatch/add/2", dispatch::add),
    ("dispatch/matmul_relu/2", dispatch::matmul_relu),
    ("plan/matmul/cold", planning::cold),
    ("plan/matmul/cached", planning::cached),
    ("plan/matmul/cached/1M-devices", planning::cached_on_a_million_devices),
    ("redistribute/plan/4-axes", planning::redistribution),
];

/// Measures the benchmarks whose names begin with the one given, or all. Prints a line each: text, or with `--json` one
/// JSON object (`name`, `seconds` as median, `min`, `iterations`, optional `bytes` and `flops`).
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
            Ok(measured) if json => line(measured.json()),
            Ok(measured) => line(measured),
            Err(error) => {
                eprintln!("bench: {name} cannot run: {error}");
                failed = true;
            }
        }
    }
    if failed { ExitCode::from(1) } else { ExitCode::SUCCESS }
}
