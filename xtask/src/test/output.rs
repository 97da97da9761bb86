//! What the output of a test run says: how many tests, and which were skipped.

use std::collections::BTreeMap;

/// Whether a line is worth showing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// Show it.
    Yes,
    /// It belongs to the output of tests that passed.
    No,
}

/// The counts and skips of a run, read line by line.
#[derive(Debug, Default)]
pub(super) struct Digest {
    counted: bool,
    passed: u64,
    failed: u64,
    unrun: u64,
    skips: BTreeMap<String, u64>,
    inside_successes: bool,
}

impl Digest {
    /// Takes one line of output in, and says whether to show it: the output of passing tests is noise, but for its
    /// skips.
    pub(super) fn read(&mut self, line: &str) -> Show {
        // The test runner's own headings: it shows the successes, then the failures, then the counts.
        match line {
            "successes:" => self.inside_successes = true,
            "failures:" => self.inside_successes = false,
            _ if line.starts_with("test result:") => self.inside_successes = false,
            _ => {}
        }
        if !self.inside_successes {
            self.read_counts(line);
        }
        let skip = line.trim_start();
        if let Some(reason) = skip.strip_prefix("SKIPPED") {
            *self.skips.entry(reason.trim_start_matches(':').trim().to_owned()).or_default() += 1;
            return Show::Yes;
        }
        if self.inside_successes { Show::No } else { Show::Yes }
    }

    /// Adds the counts of a closing line: `test result: ok. 3 passed; 0 failed; 1 ignored; ..`, or `3 passed, 0 failed`.
    fn read_counts(&mut self, line: &str) {
        let closing = line.starts_with("test result:") || count_before(line, "passed").is_some();
        let (Some(passed), Some(failed)) = (count_anywhere(line, "passed"), count_anywhere(line, "failed"))
        else {
            return;
        };
        if closing {
            self.counted = true;
            self.passed += passed;
            self.failed += failed;
            self.unrun += count_anywhere(line, "ignored").or(count_anywhere(line, "skipped")).unwrap_or(0);
        }
    }

    /// `12 passed, 0 failed, 1 ignored`, if anything was counted.
    pub(super) fn summary(&self) -> Option<String> {
        let ignored = if self.unrun == 0 { String::new() } else { format!(", {} not run", self.unrun) };
        self.counted.then(|| format!("{} passed, {} failed{ignored}", self.passed, self.failed))
    }

    /// The reasons for skips, each once, with the number of times it was given if more than once.
    pub(super) fn skips(&self) -> Vec<String> {
        let text = |(reason, times): (&String, &u64)| {
            if *times == 1 { reason.clone() } else { format!("{reason} ({times} times)") }
        };
        self.skips.iter().map(text).collect()
    }
}

/// The number at the start of a line that goes on with `word`.
fn count_before(line: &str, word: &str) -> Option<u64> {
    let (number, rest) = line.split_once(' ')?;
    if rest.starts_with(word) { number.parse().ok() } else { None }
}

/// The number in front of `word` in any part of a line of counts.
fn count_anywhere(line: &str, word: &str) -> Option<u64> {
    line.split(['.', ',', ';']).find_map(|part| count_before(part.trim(), word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(output: &str) -> (Digest, String) {
        let mut digest = Digest::default();
        let shown: Vec<&str> = output.lines().filter(|line| digest.read(line) == Show::Yes).collect();
        (digest, shown.join("\n"))
    }

    const RUN: &str = "\
test one ... ok
successes:
---- one stdout ----
42 passed, 0 failed
SKIPPED: no driver

successes:
    one
failures:
---- two stdout ----
hello
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.13s
test result: ok. 4 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.13s
SKIPPED: no driver";

    #[test]
    fn counts_of_all_binaries_are_added_and_skips_gathered() {
        let (digest, _) = digest(RUN);
        assert_eq!(digest.summary().unwrap(), "5 passed, 1 failed, 2 not run");
        assert_eq!(digest.skips(), ["no driver (2 times)"]);
    }

    #[test]
    fn the_output_of_passing_tests_is_hidden_and_of_failing_ones_shown() {
        let (_, shown) = digest(RUN);
        assert!(shown.contains("hello") && shown.contains("test one ... ok"), "{shown}");
        assert!(!shown.contains("42 passed"), "{shown}");
        assert_eq!(shown.matches("SKIPPED: no driver").count(), 2, "{shown}");
    }

    #[test]
    fn the_plain_closing_line_counts_and_prose_does_not() {
        let (digest, _) = digest("each of 3 passed, none failed\n7 passed, 0 failed, 2 skipped");
        assert_eq!(digest.summary().unwrap(), "7 passed, 0 failed, 2 not run");
        assert_eq!(Digest::default().summary(), None);
    }
}
