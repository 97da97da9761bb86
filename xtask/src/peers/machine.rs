//! What a table of ratios was measured on, and with.

use std::fmt::Write;
use std::process::Command;

use super::worker::About;
use crate::run::{self, Result};

/// Lines of Markdown: the machine, our commit, and every system with the ways in which it ran.
pub(super) fn lines(others: &[&About]) -> Result<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let commit =
        run::capture(Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(run::root()))?;
    let rust = run::capture(Command::new("rustc").arg("--version"))?;
    let mut text = format!(
        "* machine: {cores} cores, {}, {}\n* this project: {}, {}\n",
        processor(),
        std::env::consts::OS,
        commit.trim(),
        rust.trim()
    );
    for other in others {
        let About { peer, version, way, means, .. } = other;
        writeln!(text, "* {peer} {version}, `{way}`: {means}")?;
    }
    text.push('\n');
    Ok(text)
}

/// The name of the processor where the system tells it, else its family.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}
