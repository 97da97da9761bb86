//! The table at the end of a run.

use std::fmt;

/// How a row went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its command succeeded.
    Passed,
    /// Its command failed.
    Failed,
    /// It did not run.
    Skipped,
}

/// One row that was run, or not.
#[derive(Debug)]
pub(super) struct Report {
    /// The row's name.
    pub(super) name: String,
    /// What ran: counts where there are any; for a skipped row the reason.
    pub(super) ran: String,
    /// How it went.
    pub(super) outcome: Outcome,
    /// What its tests said they left out, and why.
    pub(super) skips: Vec<String>,
    /// Wall-clock seconds, building included.
    pub(super) seconds: f64,
}

impl Report {
    /// A row that did not run, and why.
    pub(super) fn skipped(name: String, reason: String) -> Self {
        Self { name, ran: reason, outcome: Outcome::Skipped, skips: Vec::new(), seconds: 0.0 }
    }
}

/// How many rows went how; its text is the last line of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    passed: usize,
    /// Rows that failed.
    pub(super) failed: usize,
    skipped: usize,
}

impl Counts {
    /// Counts the rows.
    pub(super) fn of(reports: &[Report]) -> Self {
        let count = |outcome| reports.iter().filter(|report| report.outcome == outcome).count();
        Self {
            passed: count(Outcome::Passed),
            failed: count(Outcome::Failed),
            skipped: count(Outcome::Skipped),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The table: one line a row, and below it a line for each thing that the row left out.
pub(super) fn render(reports: &[Report]) -> String {
    let names = width(reports.iter().map(|report| report.name.as_str()), "row");
    let rans = width(reports.iter().map(|report| report.ran.as_str()), "what ran");
    let mut lines = vec![format!("{:names$}  {:7}  {:rans$}  seconds", "row", "result", "what ran")];
    for report in reports {
        let result = match report.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "SKIPPED",
        };
        lines.push(format!(
            "{:names$}  {result:7}  {:rans$}  {:7.1}",
            report.name, report.ran, report.seconds
        ));
        lines.extend(report.skips.iter().map(|reason| format!("{:names$}  SKIPPED  {reason}", "")));
    }
    lines.join("\n")
}

fn width<'a>(cells: impl Iterator<Item = &'a str>, head: &'a str) -> usize {
    cells.chain([head]).map(|cell| cell.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_rows_skips_and_counts() {
        let reports = [
            Report {
                name: "tests {cpu}".to_owned(),
                ran: "5 passed, 0 failed".to_owned(),
                outcome: Outcome::Passed,
                skips: vec!["no driver".to_owned()],
                seconds: 12.34,
            },
            Report {
                name: "check {}".to_owned(),
                ran: "cargo check".to_owned(),
                outcome: Outcome::Failed,
                skips: Vec::new(),
                seconds: 1.0,
            },
            Report::skipped("encoder".to_owned(), "run cargo xtask model".to_owned()),
        ];
        let want = "\
row          result   what ran               seconds
tests {cpu}  passed   5 passed, 0 failed        12.3
             SKIPPED  no driver
check {}     FAILED   cargo check                1.0
encoder      SKIPPED  run cargo xtask model      0.0";
        assert_eq!(render(&reports), want);
        assert_eq!(Counts::of(&reports).to_string(), "1 passed, 1 failed, 1 skipped");
    }
}
