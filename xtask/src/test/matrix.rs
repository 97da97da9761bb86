//! Which rows the matrix has: a pure function of the workspace's packages and of the model's directory.

use std::path::Path;

use crate::features::{BACKENDS, BROWSER, OPS, TESTING, spell};
use crate::metadata::{Dependency, Package};

/// The package of the encoder.
const ENCODER: &str = "encoder-example";

/// One row of the matrix.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Its name in the table.
    pub(super) name: String,
    /// What it runs, in a few words, for commands that do not count tests themselves.
    pub(super) what: &'static str,
    /// What it does.
    pub(super) work: Work,
    /// Variables of the environment in which it does it.
    pub(super) environment: &'static [(&'static str, &'static str)],
}

impl Row {
    pub(super) fn new(name: impl Into<String>, what: &'static str, work: Work) -> Self {
        Self { name: name.into(), what, work, environment: &[] }
    }
}

/// What a row does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Runs cargo with these arguments.
    Cargo(Vec<String>),
    /// Nothing, for this reason.
    Skip(String),
}

/// All rows: the tests of the full feature sets, a check of the other sets, the encoder, two examples and the drawn page.
pub(super) fn rows(packages: &[Package], model: Option<&Path>) -> Vec<Row> {
    let tests = (1..=BACKENDS.len()).map(|backends| tests_row(packages, backends));
    let checks = other_sets().into_iter().map(|set| check_row(&set));
    tests.chain(checks).chain(encoder_rows(model)).chain(examples()).chain([page_row()]).collect()
}

/// Full tests with the first `backends` backends on: of [`OPS`], and of every package that needs exactly these.
/// A new package is in a row without being listed anywhere. None but `OPS` is tested twice, and the encoder, with all
/// backends too: it takes less time than it saves, as core and the backends are then built with the features of libraries
/// that they have in the other rows, which is to say not again.
fn tests_row(packages: &[Package], backends: usize) -> Row {
    let set = &BACKENDS[..backends];
    let mut arguments = vec!["test".to_owned(), "--no-fail-fast".to_owned()];
    for package in packages {
        let again = package.name == OPS || package.name == ENCODER && backends == BACKENDS.len();
        if again || backends_needed(package) == backends {
            arguments.extend(["-p".to_owned(), package.name.clone()]);
        }
    }
    arguments.extend(["--features".to_owned(), spell(set.iter().copied().chain([TESTING]))]);
    // The output of passing tests is where a skip says its reason.
    arguments.extend(["--", "--show-output"].map(str::to_owned));
    Row::new(format!("tests {}", braced(set)), "tests", Work::Cargo(arguments))
}

/// How many of [`BACKENDS`], from the first, a package needs to be built with.
fn backends_needed(package: &Package) -> usize {
    let of = |feature: &str| BACKENDS.iter().position(|backend| *backend == feature).map_or(0, |at| at + 1);
    let own = package.name.strip_prefix("backend-").map_or(0, of);
    let through = |dependency: &Dependency| match dependency.name.as_str() {
        OPS => dependency.features.iter().map(|feature| of(feature)).max().unwrap_or(0),
        name if !dependency.optional => name.strip_prefix("backend-").map_or(0, of),
        _ => 0,
    };
    // The first backend is the default: a package that needs none is tested with it.
    package.dependencies.iter().map(through).max().unwrap_or(0).max(own).max(1)
}

/// The sets of backends that no row tests, the empty one first.
fn other_sets() -> Vec<Vec<&'static str>> {
    let sets = (0..1_usize << BACKENDS.len()).map(|bits| {
        let chosen = BACKENDS.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        chosen.map(|(_, backend)| *backend).collect::<Vec<_>>()
    });
    sets.filter(|set| set.is_empty() || *set != BACKENDS[..set.len()]).collect()
}

/// A check that [`OPS`] compiles with exactly these backends.
fn check_row(set: &[&str]) -> Row {
    let mut arguments: Vec<String> =
        ["check", "-p", OPS, "--no-default-features"].map(str::to_owned).to_vec();
    if !set.is_empty() {
        arguments.extend(["--features".to_owned(), spell(set.iter().copied())]);
    }
    Row::new(format!("check {}", braced(set)), "cargo check", Work::Cargo(arguments))
}

/// The encoder against PyTorch's answers on one and on several devices, also on numbers that divide nothing, if the model is
/// there.
fn encoder_rows(model: Option<&Path>) -> Vec<Row> {
    let what = "real model against PyTorch";
    let Some(model) = model else {
        let work = Work::Skip("run cargo xtask model".to_owned());
        return vec![Row::new("encoder", what, work)];
    };
    let row = |mesh: &str| {
        let run = ["run", "--release", "--example", "encoder", "--", "--mesh", mesh];
        let mut arguments = run.map(str::to_owned).to_vec();
        arguments.extend(["--model".to_owned(), model.display().to_string()]);
        arguments.extend(["--check", "tests/minilm_reference.json"].map(str::to_owned));
        Row::new(format!("encoder {mesh}"), what, Work::Cargo(arguments))
    };
    ["tp=1", "tp=2", "tp=3", "tp=5", "dp=2,tp=2", "dp=3,tp=2"].into_iter().map(row).collect()
}

/// The README's first command, and the example of manual regions.
fn examples() -> [Row; 2] {
    ["quickstart", "manual"].map(|name| {
        let arguments = ["run", "--release", "--example", name].map(str::to_owned).to_vec();
        Row::new(name, "the example", Work::Cargo(arguments))
    })
}

/// The page of the example `visualize`, in a browser.
fn page_row() -> Row {
    let mut arguments =
        ["test", "-p", OPS, "--example", "visualize", "--features"].map(str::to_owned).to_vec();
    arguments.push(spell([BROWSER]));
    arguments.extend(["--", "--show-output"].map(str::to_owned));
    Row::new("page", "tests", Work::Cargo(arguments))
}

fn braced(set: &[&str]) -> String {
    format!("{{{}}}", set.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, &[&str])]) -> Package {
        let dependencies = dependencies.iter().map(|(name, features)| Dependency {
            name: (*name).to_owned(),
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
            ..Dependency::default()
        });
        Package { name: name.to_owned(), dir: name.to_owned(), dependencies: dependencies.collect() }
    }

    fn workspace() -> Vec<Package> {
        let mut ops = package(OPS, &[("sharding-core", &[]), ("backend-cuda", &[])]);
        for dependency in &mut ops.dependencies {
            dependency.optional = dependency.name != "sharding-core";
        }
        vec![
            package("sharding-core", &[]),
            package("backend-cpu", &[("sharding-core", &[])]),
            package("backend-sim", &[("sharding-core", &[])]),
            package("backend-cuda", &[("sharding-core", &[])]),
            ops,
            package("proof", &[(OPS, &["cpu", "sim"])]),
            package(ENCODER, &[(OPS, &["cpu"])]),
        ]
    }

    fn command_lines(rows: &[Row]) -> Vec<String> {
        let line = |row: &Row| match &row.work {
            Work::Cargo(arguments) => format!("{}: {}", row.name, arguments.join(" ")),
            Work::Skip(reason) => format!("SKIPPED {}: {reason}", row.name),
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn the_rows_without_a_model() {
        assert_eq!(
            command_lines(&rows(&workspace(), None)),
            [
                "tests {cpu}: test --no-fail-fast -p sharding-core -p backend-cpu -p sharding-ops \
             -p encoder-example --features sharding-ops/cpu,sharding-ops/testing -- --show-output",
                "tests {cpu,sim}: test --no-fail-fast -p backend-sim -p sharding-ops -p proof \
             --features sharding-ops/cpu,sharding-ops/sim,sharding-ops/testing -- --show-output",
                "tests {cpu,sim,cuda}: test --no-fail-fast -p backend-cuda -p sharding-ops \
             -p encoder-example \
             --features sharding-ops/cpu,sharding-ops/sim,sharding-ops/cuda,sharding-ops/testing -- --show-output",
                "check {}: check -p sharding-ops --no-default-features",
                "check {sim}: check -p sharding-ops --no-default-features --features sharding-ops/sim",
                "check {cuda}: check -p sharding-ops --no-default-features --features sharding-ops/cuda",
                "check {cpu,cuda}: check -p sharding-ops --no-default-features \
             --features sharding-ops/cpu,sharding-ops/cuda",
                "check {sim,cuda}: check -p sharding-ops --no-default-features \
             --features sharding-ops/sim,sharding-ops/cuda",
                "SKIPPED encoder: run cargo xtask model",
                "quickstart: run --release --example quickstart",
                "manual: run --release --example manual",
                "page: test -p sharding-ops --example visualize --features sharding-ops/browser -- --show-output",
            ]
        );
    }

    #[test]
    fn a_model_is_run_on_one_and_on_several_devices() {
        let rows = encoder_rows(Some(Path::new("minilm")));
        assert_eq!(
            command_lines(&rows)[1],
            "encoder tp=2: run --release --example encoder -- --mesh tp=2 --model minilm --check tests/minilm_reference.json"
        );
        assert_eq!(rows.len(), 6);
    }
}
