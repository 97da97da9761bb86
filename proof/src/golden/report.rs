//! Counting and printing what the cases gave.

use super::allow::Allowed;
use super::json::Parsed;
use crate::print::line;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a case gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed { wanted: String, got: String },
    Skipped(String),
}

impl Verdict {
    pub(super) fn failed(wanted: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Failed { wanted: wanted.into(), got: got.into() }
    }
    /// Passed if both are equal.
    pub(super) fn equal<T: PartialEq + Debug>(what: &str, wanted: T, got: T) -> Self {
        if wanted == got {
            Self::Passed
        } else {
            Self::failed(format!("{what} {wanted:?}"), format!("{got:?}"))
        }
    }
    /// Passed if there is an error where one is wanted.
    pub(super) fn error<T: Debug, E>(got: &Result<T, E>) -> Self {
        match got {
            Err(_) => Self::Passed,
            Ok(got) => Self::failed("an error", format!("{got:?}")),
        }
    }
    /// This verdict if it is no pass, else the next.
    pub(super) fn and(self, next: impl FnOnce() -> Self) -> Self {
        if self == Self::Passed { next() } else { self }
    }
}

/// The verdicts so far.
pub(super) struct Report {
    suite: String,
    allowed: Vec<Allowed>,
    passed: usize,
    failed: usize,
    // Suite, reason and count, in the order of appearance.
    skipped: Vec<(String, String, usize)>,
    notes: Vec<(String, usize)>,
    /// Takes the lines for people.
    line: fn(&dyn Display),
}

impl Report {
    /// Prints what it is told.
    pub(super) fn new(allowed: Vec<Allowed>) -> Self {
        Self { allowed, line: |text| line(text), ..Self::silent() }
    }
    /// Counts only.
    pub(super) fn silent() -> Self {
        Self {
            suite: String::new(),
            allowed: Vec::new(),
            passed: 0,
            failed: 0,
            skipped: Vec::new(),
            notes: Vec::new(),
            line: |_| (),
        }
    }
    /// The suite that the following cases are of.
    pub(super) fn begin(&mut self, suite: &str) {
        self.suite = suite.to_owned();
    }

    /// Runs a case and counts what it gives. One that panics has failed, and so has one that cannot be read: the others of the
    /// file still count.
    pub(super) fn case(&mut self, id: &str, run: impl FnOnce() -> Parsed<Verdict>) {
        let verdict = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(malformed)) => Verdict::failed("a case that can be read", malformed.to_string()),
            Err(payload) => Verdict::failed("no panic", panic_text(payload.as_ref())),
        };
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Skipped(reason) => {
                // What is refused on purpose is on the list where the case is known, else counted as skipped.
                if let Some(allowed) = self.allowed.iter().find(|allowed| allowed.is(&self.suite, id)) {
                    (self.line)(&format_args!("{} {id}: allowed: {} ({reason})", self.suite, allowed.reason));
                    self.passed += 1;
                    return;
                }
                let suite = self.suite.clone();
                self.skip(&suite, &reason, 1);
            }
            Verdict::Failed { wanted, got } => {
                let (wanted, got) = (one_line(&wanted), one_line(&got));
                match self.allowed.iter().find(|allowed| allowed.is(&self.suite, id)) {
                    Some(allowed) => {
                        (self.line)(&format_args!(
                            "{} {id}: allowed: {} (wanted {wanted}; got {got})",
                            self.suite, allowed.reason
                        ));
                        self.passed += 1;
                    }
                    None => {
                        (self.line)(&format_args!("{} {id}: wanted {wanted}; got {got}", self.suite));
                        self.failed += 1;
                    }
                }
            }
        }
    }

    /// Counts cases that are not replayed.
    pub(super) fn skip(&mut self, suite: &str, reason: &str, cases: usize) {
        match self.skipped.iter_mut().find(|(s, r, _)| s == suite && r == reason) {
            Some((_, _, n)) => *n += cases,
            None => self.skipped.push((suite.to_owned(), reason.to_owned(), cases)),
        }
    }

    /// Counts cases that passed for a reason which a reader should know of.
    pub(super) fn note(&mut self, text: &str) {
        let text = format!("{}: {text}", self.suite);
        match self.notes.iter_mut().find(|(known, _)| *known == text) {
            Some((_, n)) => *n += 1,
            None => self.notes.push((text, 1)),
        }
    }

    /// Passed, failed and skipped cases.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.passed, self.failed, self.skipped.iter().map(|(_, _, n)| n).sum()]
    }

    /// Prints the counts; whether no case failed.
    pub(super) fn finish(self) -> bool {
        for (text, n) in &self.notes {
            (self.line)(&format_args!("note: {text} ({n})"));
        }
        for text in skip_lines(&self.skipped) {
            (self.line)(&text);
        }
        let [passed, failed, skipped] = self.counts();
        (self.line)(&format_args!("{passed} passed, {failed} failed, {skipped} skipped"));
        self.failed == 0
    }
}

/// A line for each suite and reason; what follows a colon in a reason is listed with its count.
fn skip_lines(skipped: &[(String, String, usize)]) -> Vec<String> {
    let mut lines: Vec<(&str, &str, usize, Vec<String>)> = Vec::new();
    for (suite, reason, n) in skipped {
        let (reason, detail) = reason.split_once(": ").map_or((reason.as_str(), None), |(r, d)| (r, Some(d)));
        let detail = detail.map(|detail| format!("{detail} {n}"));
        match lines.iter_mut().find(|(s, r, _, _)| s == suite && *r == reason) {
            Some((_, _, count, details)) => {
                *count += n;
                details.extend(detail);
            }
            None => lines.push((suite, reason, *n, detail.into_iter().collect())),
        }
    }
    let text = |(suite, reason, n, mut details): (&str, &str, usize, Vec<String>)| {
        details.sort();
        let colon = if details.is_empty() { "" } else { ": " };
        format!("{suite}: {n} skipped: {reason}{colon}{}", details.join(", "))
    };
    lines.into_iter().map(text).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("a panic: {}", text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_groups_are_counted_by_reason() {
        let skipped = [("a", "no op: tan", 2), ("b", "no suite", 7), ("a", "no op: sin", 1)];
        let skipped = skipped.map(|(suite, reason, n)| (suite.to_owned(), reason.to_owned(), n));
        assert_eq!(skip_lines(&skipped), ["a: 3 skipped: no op: sin 1, tan 2", "b: 7 skipped: no suite"]);
    }
}
