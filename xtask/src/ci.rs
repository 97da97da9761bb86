//! `ci`: everything that must hold, cheapest first; the only entry for a machine.

use std::time::Instant;

use crate::run::{self, Result};
use crate::{comm, features, fuzz, golden, rules, test, tidy};

/// Whether the matrix is a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matrix {
    /// Run it.
    Run,
    /// The caller runs it by itself (as `.ci/run` does, to run just what the README names).
    LeaveOut,
}

/// A stage: its name and what it runs.
type Stage = (&'static str, fn() -> Result<bool>);

/// Runs the stages and answers whether all passed.
pub(crate) fn run(matrix: Matrix) -> Result<bool> {
    run_stages(&stages(matrix))
}

/// The stages in order. The matrix includes two examples and the encoder, so they are no stages of their own.
fn stages(matrix: Matrix) -> Vec<Stage> {
    let mut stages: Vec<Stage> = vec![("fmt", fmt), ("tidy", tidy::run), ("clippy", clippy), ("docs", docs)];
    if matrix == Matrix::Run {
        stages.push(("test", test::run));
    }
    stages.extend([
        ("golden", (|| golden::run(&[])) as fn() -> Result<bool>),
        ("rules", || rules::run(&["--check"])),
        ("comm", || comm::run(&["--check"])),
        ("fuzz", || fuzz::run(&["--seconds", "5"])),
    ]);
    stages
}

/// Runs stages until one fails; says the seconds of each, and which one failed.
fn run_stages(stages: &[Stage]) -> Result<bool> {
    let mut times = Vec::new();
    for (name, stage) in stages {
        println!("\n=== {name}");
        let started = Instant::now();
        let passed = stage().map_err(|error| format!("ci stopped at {name}: {error}"))?;
        let seconds = started.elapsed().as_secs_f64();
        if !passed {
            println!("\nci stopped at {name}, after {seconds:.1} s of it");
            return Ok(false);
        }
        times.push(format!("{name} {seconds:.1} s"));
    }
    println!("\nci passed: {}", times.join(", "));
    Ok(true)
}

fn fmt() -> Result<bool> {
    let ours = run::succeeds(&mut run::cargo(["fmt", "--all", "--check"]))?;
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    Ok(ours && run::succeeds(&mut run::cargo(fuzz))?)
}

fn clippy() -> Result<bool> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--features", &features::all()];
    run::succeeds(run::cargo(arguments).args(["--", "-D", "warnings"]))
}

fn docs() -> Result<bool> {
    let arguments = ["doc", "--workspace", "--no-deps", "--features", &features::all()];
    run::succeeds(run::cargo(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn stages_stop_at_the_first_that_fails() {
        static AFTER: AtomicUsize = AtomicUsize::new(0);
        let after: fn() -> Result<bool> = || {
            AFTER.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        };
        assert!(!run_stages(&[("good", || Ok(true)), ("bad", || Ok(false)), ("after", after)]).unwrap());
        let error = run_stages(&[("broken", || Err("no disk".into())), ("after", after)]).unwrap_err();
        assert_eq!(error.to_string(), "ci stopped at broken: no disk");
        assert_eq!(AFTER.load(Ordering::Relaxed), 0);
        assert!(run_stages(&[("after", after)]).unwrap());
    }

    #[test]
    fn only_the_matrix_can_be_left_out() {
        let names = |matrix| stages(matrix).iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(
            names(Matrix::Run),
            ["fmt", "tidy", "clippy", "docs", "test", "golden", "rules", "comm", "fuzz"]
        );
        assert_eq!(
            names(Matrix::LeaveOut),
            ["fmt", "tidy", "clippy", "docs", "golden", "rules", "comm", "fuzz"]
        );
    }
}
