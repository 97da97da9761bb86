//! `cargo xtask comm`: the file that pins what programs move.

use crate::print::line;
use sharding_core::Result;
use sharding_core::trace::{CommReport, explain};
use std::fmt::Write;
use std::process::ExitCode;

/// A program: its name and mesh, and what runs it on simulated devices.
pub type Program = (&'static str, fn() -> Result<()>);

const HEAD: &str = "\
# What the examples move between devices, computed on simulated ones: one collective a line, with its mesh axes, how often it
# runs, the bytes that a device sends each time, and the op that asks for it. Written by `cargo xtask comm`, compared by
# `cargo xtask comm --check`.
";

/// Writes the file named, or with `--check` compares it with what it would be and prints the lines that differ.
///
/// The exit status is 1 if it differs, 2 for a wrong argument, a file that cannot be read or written, or a program that
/// fails.
pub fn run(programs: &[Program], arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        [path] if !path.starts_with('-') => write(programs, path).map(|()| true),
        [path, "--check"] if !path.starts_with('-') => check(programs, path),
        _ => Err("usage: comm FILE [--check]".to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("comm: {error}");
            ExitCode::from(2)
        }
    }
}

fn write(programs: &[Program], path: &str) -> std::result::Result<(), String> {
    let text = text(programs)?;
    std::fs::write(path, text).map_err(|error| format!("cannot write {path}: {error}"))
}

fn check(programs: &[Program], path: &str) -> std::result::Result<bool, String> {
    let known = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let differing = differences(&known, &text(programs)?);
    differing.iter().for_each(line);
    if differing.is_empty() {
        line(format_args!("{} programs move what {path} says", programs.len()));
    } else {
        line("if that is meant: cargo xtask comm");
    }
    Ok(differing.is_empty())
}

fn text(programs: &[Program]) -> std::result::Result<String, String> {
    let mut text = HEAD.to_owned();
    for (name, program) in programs {
        let explained = explain(program);
        explained.value.map_err(|error| format!("{name} cannot run: {error}"))?;
        let _ = write!(text, "\n[{name}]\n{}", section(&explained.report));
    }
    Ok(text)
}

/// The lines of one program; local steps move nothing.
fn section(report: &CommReport) -> String {
    let mut lines = String::new();
    // Where a line of the source moves, nothing changes here: calls at several lines are one.
    let mut rows: Vec<(String, usize)> = Vec::new();
    for step in report.steps.iter().filter(|step| step.kind.communicates()) {
        let row =
            format!("{}({}) {:.0} bytes for {}", step.kind.name(), step.axes.join(", "), step.bytes, step.op);
        match rows.iter_mut().find(|(known, _)| *known == row) {
            Some((_, count)) => *count += step.count,
            None => rows.push((row, step.count)),
        }
    }
    for (row, count) in &rows {
        let _ = writeln!(lines, "{count} x {row}");
    }
    if rows.is_empty() {
        lines.push_str("nothing\n");
    }
    lines
}

/// The lines that only one of the two has, under the heading of their program.
fn differences(known: &str, now: &str) -> Vec<String> {
    let sections = |text: &str| -> Vec<(String, Vec<String>)> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let known = all.iter().position(|(name, _)| name == line);
            match (line.starts_with('['), known, all.last_mut()) {
                (false, _, Some((_, lines))) => lines.push(line.to_owned()),
                // A program that is there twice has the lines of both.
                (true, Some(known), _) => {
                    let twice = all.remove(known);
                    all.push(twice);
                }
                _ => all.push((line.to_owned(), Vec::new())),
            }
        }
        all
    };
    let (old, new) = (sections(known), sections(now));
    let empty = Vec::new();
    let of = |all: &'_ [(String, Vec<String>)], name: &str| -> Option<Vec<String>> {
        all.iter().find(|(known, _)| known == name).map(|(_, lines)| lines.clone())
    };
    let mut names: Vec<&String> = old.iter().map(|(name, _)| name).collect();
    names.extend(new.iter().map(|(name, _)| name).filter(|name| of(&old, name).is_none()));
    let mut out = Vec::new();
    for name in names {
        let (before, after) = (of(&old, name), of(&new, name));
        if before == after {
            continue;
        }
        out.push(name.clone());
        let (before, after) =
            (before.unwrap_or_else(|| empty.clone()), after.unwrap_or_else(|| empty.clone()));
        out.extend(
            before.iter().filter(|line| !after.contains(line)).map(|line| format!("  locked: {line}")),
        );
        out.extend(
            after.iter().filter(|line| !before.contains(line)).map(|line| format!("  now:    {line}")),
        );
        if before.len() == after.len() && before.iter().all(|line| after.contains(line)) {
            out.push("  the same lines in another order".to_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_ops::{BackendKind, DType, DeviceMapping, DeviceMesh, Replicated, Sharded, full};

    fn gathers(columns: usize) -> Result<()> {
        let mesh = DeviceMesh::simulated(BackendKind::SIM, [4], ["tp"])?;
        let x = full([8, columns], 1.0, DType::F32, &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
        x.transfer_to(&DeviceMapping::new(&mesh, [Replicated])?)?;
        x.transfer_to(&DeviceMapping::new(&mesh, [Replicated])?)?;
        Ok(())
    }

    #[test]
    fn a_program_that_moves_more_differs_from_its_lock() {
        let locked = text(&[("one", || gathers(2)), ("idle", || Ok(()))]).unwrap();
        // 64 bytes (g-1)/g.
        assert!(locked.contains("[one]\n2 x all_gather(tp) 48 bytes for transfer_to\n"), "{locked}");
        assert!(locked.ends_with("[idle]\nnothing\n"), "{locked}");
        assert_eq!(differences(&locked, &locked), Vec::<String>::new());
        let twice = format!("{locked}\n[one]\n9 x all_gather(tp) 1 bytes for transfer_to\n");
        assert_eq!(
            differences(&twice, &locked),
            ["[one]", "  locked: 9 x all_gather(tp) 1 bytes for transfer_to"]
        );
        let more = text(&[("one", || gathers(3)), ("two", || Ok(()))]).unwrap();
        assert_eq!(
            differences(&locked, &more),
            [
                "[one]",
                "  locked: 2 x all_gather(tp) 48 bytes for transfer_to",
                "  now:    2 x all_gather(tp) 72 bytes for transfer_to",
                "[idle]",
                "  locked: nothing",
                "[two]",
                "  now:    nothing",
            ]
        );
    }

    #[test]
    fn a_flag_is_no_file() {
        let run = |words: &[&str]| run(&[], &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        for words in
            [&[][..], &["--list"], &["--check"], &["--list", "--check"], &["a", "b"], &["a", "--check", "c"]]
        {
            assert_eq!(format!("{:?}", run(words)), format!("{:?}", ExitCode::from(2)), "{words:?}");
        }
        assert!(!std::path::Path::new("--list").exists());
    }

    #[test]
    fn the_file_is_written_and_compared() {
        let path = std::env::temp_dir().join(format!("comm-{}.lock", std::process::id()));
        let path = path.display().to_string();
        let (small, large): ([Program; 1], [Program; 1]) = ([("p", || gathers(2))], [("p", || gathers(3))]);
        write(&small, &path).unwrap();
        assert_eq!((check(&small, &path), check(&large, &path)), (Ok(true), Ok(false)));
        std::fs::remove_file(&path).unwrap();
        assert!(check(&small, &path).unwrap_err().contains("cannot read"));
        let fails: [Program; 1] = [("bad", || DeviceMesh::simulated(BackendKind::SIM, [0], ["x"]).map(drop))];
        assert!(text(&fails).unwrap_err().starts_with("bad cannot run"));
    }
}
