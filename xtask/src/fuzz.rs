//! `fuzz`: runs the programs of `fuzz/targets`, each from its committed seeds and from what earlier runs have found worth
//! keeping.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{self, Result};

/// What lets libFuzzer follow coverage and comparisons, for a compiler without unstable flags.
const FLAGS: &str = "-Cpasses=sancov-module \
     -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
     -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares \
     -Ccodegen-units=1";

/// Runs the targets that the arguments name (all, if none), and answers whether none found a fault.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let (seconds, names) = parse(arguments)?;
    let all = targets(&run::root().join("fuzz/targets"))?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|known| known == **name)) {
        return Err(format!("there is no target `{unknown}`; there are {}", all.join(", ")).into());
    }
    let host = host()?;
    let built = build(&host)?;
    let mut passed = true;
    for target in all.iter().filter(|target| names.is_empty() || names.contains(&target.as_str())) {
        passed &= run_target(&built, target, seconds)?;
    }
    Ok(passed)
}

/// The seconds for each target, and the names of those that are wanted.
fn parse<'a>(arguments: &[&'a str]) -> Result<(u32, Vec<&'a str>)> {
    match arguments {
        ["--seconds", number, rest @ ..] => {
            let seconds = number.parse().map_err(|_| format!("`{number}` is no number of seconds"))?;
            Ok((seconds, rest.to_vec()))
        }
        rest => Ok((10, rest.to_vec())),
    }
}

/// The names of the targets, sorted: one file each.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The triple that rustc builds for by default. Named to cargo, it keeps the flags away from build scripts and macros.
pub(crate) fn host() -> Result<String> {
    let text = run::capture(std::process::Command::new("rustc").arg("-vV").current_dir(run::root()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.ok_or("rustc -vV names no host")?.to_owned())
}

/// Builds all targets; gives the folder of the programs.
fn build(host: &str) -> Result<PathBuf> {
    let folder = run::root().join("target/fuzz");
    let arguments = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", host];
    let mut command = run::cargo(arguments);
    command.arg("--target-dir").arg(&folder).env("RUSTFLAGS", FLAGS);
    run::check(&mut command).map_err(|error| format!("{error} (a C++ compiler is needed, such as g++)"))?;
    Ok(folder.join(host).join("release"))
}

fn run_target(built: &Path, target: &str, seconds: u32) -> Result<bool> {
    let root = run::root();
    let (corpus, found) = (root.join("target/fuzz/corpus").join(target), root.join("target/fuzz/found"));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&found)?;
    println!("\n== fuzz {target}, {seconds} s");
    let mut command = std::process::Command::new(built.join(target));
    command.arg(&corpus).arg(root.join("fuzz/seeds").join(target));
    command.arg(format!("-max_total_time={seconds}")).args([
        // By the clock, which runs on where a busy machine stands still: inputs of no milliseconds took 11 seconds.
        "-timeout=60",
        "-verbosity=0",
        "-print_final_stats=1",
    ]);
    command.arg(format!("-artifact_prefix={}/{target}-", found.display())).current_dir(&root);
    let passed = run::succeeds(&mut command)?;
    if !passed {
        println!("a fault in {target}: run its program on the file named above to see it again");
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_targets_are_read() {
        assert_eq!(parse(&[]).unwrap(), (10, vec![]));
        assert_eq!(parse(&["--seconds", "3", "weight_file"]).unwrap(), (3, vec!["weight_file"]));
        assert!(parse(&["--seconds", "few"]).is_err());
        let error = run(&["no_such_target"]).unwrap_err().to_string();
        assert!(error.contains("no_such_target") && error.contains("weight_file"), "{error}");
    }

    #[test]
    fn every_target_has_seeds() {
        let root = run::root().join("fuzz");
        let names = targets(&root.join("targets")).unwrap();
        assert!(names.len() >= 3, "{names:?}");
        for name in names {
            assert!(fs::read_dir(root.join("seeds").join(&name)).unwrap().count() > 0, "{name}");
        }
    }
}
