//! `cargo xtask bench`: how long dispatch, planning, redistribution and kernels take, and a real model.

mod dense;
mod dispatch;
mod encoder;
mod made;
mod measure;
mod moving;
mod planning;
mod region;
mod serve;
mod sharding;

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

const BENCHES: [Bench; 49] = [
    ("dispatch/add/2", dispatch::add),
    ("dispatch/matmul_relu/2", dispatch::matmul_relu),
    ("elementwise/20/4KiB", dispatch::elementwise),
    ("elementwise/20/1MiB", dispatch::elementwise),
    ("plan/matmul/cold", planning::cold),
    ("plan/matmul/cached", planning::cached),
    ("plan/matmul/cached/1M-devices", planning::cached_on_a_million_devices),
    ("redistribute/plan/4-axes", planning::redistribution),
    ("search/any/even", planning::any_search),
    ("search/any/uneven", planning::any_search),
    ("search/any/small", planning::any_search),
    ("search/worst/even", planning::worst_search),
    ("search/worst/uneven", planning::worst_search),
    ("search/worst/small", planning::worst_search),
    ("redistribute/S0-R/4KiB", moving::redistribute),
    ("redistribute/S0-R/1MiB", moving::redistribute),
    ("redistribute/S0-R/64MiB", moving::redistribute),
    ("redistribute/S0-S1/4KiB", moving::redistribute),
    ("redistribute/S0-S1/1MiB", moving::redistribute),
    ("redistribute/S0-S1/64MiB", moving::redistribute),
    ("redistribute/P-S0/4KiB", moving::redistribute),
    ("redistribute/P-S0/1MiB", moving::redistribute),
    ("redistribute/P-S0/64MiB", moving::redistribute),
    ("redistribute/P-R/4KiB", moving::redistribute),
    ("redistribute/P-R/1MiB", moving::redistribute),
    ("redistribute/P-R/64MiB", moving::redistribute),
    ("move/concat/2", moving::movement),
    ("move/concat/8", moving::movement),
    ("move/slice/2", moving::movement),
    ("move/slice/8", moving::movement),
    ("move/flip/2", moving::movement),
    ("move/flip/8", moving::movement),
    ("region/call/2", region::region),
    ("region/call/8", region::region),
    ("region/psum/2", region::region),
    ("region/psum/8", region::region),
    ("sharding/indices/1M-devices", sharding::indices),
    ("sharding/replica_id/1M-devices", sharding::replica_id),
    ("sharding/equivalent/1M-devices", sharding::equivalent),
    ("matmul/1024", dense::matmul),
    ("matmul/2048", dense::matmul),
    ("attention/32x12x128x32", dense::attention),
    ("attention/1x12x1024x64", dense::attention),
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
/// With `--serve` and nothing else it says what there is and measures what it is asked for, line by line.
///
/// The exit status is 1 if a benchmark cannot run, 2 for a name that there is none of.
pub fn run(arguments: &[String]) -> ExitCode {
    if arguments == ["--serve"] {
        return serve::run();
    }
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
