//! `test`: the matrix of feature sets, the encoder on a real model, and two examples; with `--deep` what takes longer.
//!
//! Every row runs, whatever failed before it; a table at the end says what ran and what did not, and why. The last
//! line is `N passed, N failed, N skipped`, counted in rows.

mod deep;
mod matrix;
mod output;
mod table;

use std::time::Instant;

use crate::run::{self, Result, Stream};
use crate::{fuzz, metadata, model};
use matrix::{Row, Work};
use output::Digest;
use table::{Outcome, Report};

/// Runs the matrix and answers whether no row failed.
pub(crate) fn run() -> Result<bool> {
    let packages = metadata::packages(&run::root())?;
    run_rows(matrix::rows(&packages, model::cached()?.as_deref()))
}

/// Runs what is too slow for every change and answers whether no row failed.
pub(crate) fn deep() -> Result<bool> {
    run_rows(deep::rows(&fuzz::host()?))
}

fn run_rows(rows: Vec<Row>) -> Result<bool> {
    let reports = rows.into_iter().map(run_row).collect::<Result<Vec<_>>>()?;
    let counts = table::Counts::of(&reports);
    println!("\n{}\n{counts}", table::render(&reports));
    Ok(counts.failed == 0)
}

/// Runs one row and says how it went.
fn run_row(row: Row) -> Result<Report> {
    let arguments = match row.work {
        Work::Cargo(arguments) => arguments,
        Work::Skip(reason) => {
            println!("SKIPPED {}: {reason}", row.name);
            return Ok(Report::skipped(row.name, reason));
        }
    };
    let mut command = run::cargo(&arguments);
    command.envs(row.environment.iter().copied());
    println!("\n== {}: {}", row.name, run::describe(&command));
    let started = Instant::now();
    let mut digest = Digest::default();
    let status = run::watch(&mut command, |stream, line| match (stream, digest.read(line)) {
        (_, output::Show::No) => {}
        (Stream::Out, output::Show::Yes) => println!("{line}"),
        (Stream::Err, output::Show::Yes) => eprintln!("{line}"),
    })?;
    Ok(Report {
        name: row.name,
        ran: digest.summary().unwrap_or_else(|| row.what.to_owned()),
        outcome: if status.success() { Outcome::Passed } else { Outcome::Failed },
        skips: digest.skips(),
        seconds: started.elapsed().as_secs_f64(),
    })
}
