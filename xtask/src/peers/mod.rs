//! `bench --peers`: the same work here and in other systems, on this machine, in one run.
//!
//! Every system is a process that stays and answers one question at a time: how long does this take? The question goes
//! around seven times, so that what disturbs the machine disturbs all alike, and the median of the seven counts. Work that
//! is compared with other work of ours goes around together with it. Only ratios are printed: seconds of one machine at one hour say nothing on another. It is no gate: machines differ.

mod machine;
mod table;
mod venv;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::run::{self, Result};
use table::Row;
use worker::{About, Answer, PATIENCE, Worker};

/// How often the question goes around.
const ROUNDS: usize = 7;

/// How long the machine rests between two systems: the threads of some spin for a while when they have no more work.
const REST: Duration = Duration::from_millis(20);

/// A program that drives another system.
struct Driver {
    /// A script in `proof/peers`.
    script: &'static str,
    arguments: &'static [&'static str],
    /// The module that it needs.
    module: &'static str,
    /// The beginnings of the names of its work: what does none of the work asked for is not started.
    work: &'static [&'static str],
}

/// The drivers that need what is in the first list of packages.
const DRIVERS: [Driver; 6] = [
    torch(&["plain"], &["matmul/", "attention/", "encoder/"]),
    torch(&["fake"], DISPATCH),
    torch(&["alone"], DISPATCH),
    torch(&["gloo"], MOVING),
    torch(&["threads"], MOVING),
    Driver {
        script: "with_jax.py",
        arguments: &[],
        module: "jax",
        work: &["dispatch/", "elementwise/", "redistribute/", "matmul/", "attention/"],
    },
];

/// The driver that has a flag of its own: its first run compiles for minutes.
const MAX: Driver = Driver {
    script: "with_max.py",
    arguments: &[],
    module: "max",
    work: &["dispatch/", "elementwise/", "plan/", "redistribute/", "matmul/"],
};

const DISPATCH: &[&str] = &["dispatch/", "elementwise/20/4KiB", "plan/"];
const MOVING: &[&str] = &["elementwise/20/1MiB", "redistribute/"];

const fn torch(arguments: &'static [&'static str], work: &'static [&'static str]) -> Driver {
    Driver { script: "with_torch.py", arguments, module: "torch", work }
}

impl Driver {
    /// Whether it has work whose name begins so; with no names, all have.
    fn does(&self, names: &[String]) -> bool {
        let overlap = |name: &str, work: &str| name.starts_with(work) || work.starts_with(name);
        names.is_empty() || names.iter().any(|name| self.work.iter().any(|work| overlap(name, work)))
    }
}

/// What to compare.
#[derive(Debug, Default, PartialEq, Eq)]
struct Args {
    /// Whether MAX takes part.
    max: bool,
    /// A virtual environment that has the packages; without one it is made.
    venv: Option<PathBuf>,
    /// The beginnings of the names of work; none means all.
    names: Vec<String>,
}

/// Compares, and prints the table. Answers whether every system could do all that it says it can.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let args = parse(arguments)?;
    let python = venv::python(args.venv.as_deref(), args.max)?;
    let drivers = DRIVERS.into_iter().chain(args.max.then_some(MAX));
    let drivers: Vec<Driver> = drivers.filter(|driver| driver.does(&args.names)).collect();
    let mut modules: Vec<&str> = drivers.iter().map(|driver| driver.module).collect();
    modules.dedup();
    venv::check(&python, &modules)?;
    // Built before anybody measures: a compiler would disturb them.
    run::check(&mut run::cargo(["build", "--release", "-p", "proof", "--bin", "bench"]))?;
    let mut ours = Worker::start(run::proof("bench").arg("--serve"), PATIENCE)?.ready()?;
    // All load at once, which takes them seconds.
    let starting = drivers.iter().map(|driver| {
        // `-B`: Python keeps nothing compiled in the source tree.
        let script = venv::directory().join(driver.script);
        Worker::start(Command::new(&python).arg("-B").arg(script).args(driver.arguments), PATIENCE)
    });
    let starting = starting.collect::<Result<Vec<_>>>()?;
    let mut others = starting.into_iter().map(worker::Starting::ready).collect::<Result<Vec<_>>>()?;

    let chosen = |item: &str| args.names.is_empty() || args.names.iter().any(|name| item.starts_with(name));
    let shared = |item: &str| others.iter().any(|other| other.has(item));
    let items: Vec<String> =
        ours.about.items.iter().filter(|item| chosen(item) && shared(item)).cloned().collect();
    if items.is_empty() {
        return Err(format!("no work that others do as well begins with {}", args.names.join(", ")).into());
    }
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for group in groups(&items) {
        eprintln!("{}", group.join(", "));
        let (found, why) = compare(&group, &mut ours, &mut others)?;
        rows.extend(found);
        failures.extend(why);
    }
    let abouts: Vec<_> = others.iter().map(|other| &other.about).collect();
    print!("{}", machine::lines(&abouts)?);
    print!("{}", table::text(&rows, &abouts));
    for failure in &failures {
        println!("FAILED {failure}");
    }
    Ok(failures.is_empty())
}

fn parse(arguments: &[&str]) -> Result<Args> {
    let mut args = Args::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--max" => args.max = true,
            "--venv" => {
                let dir = rest.next().ok_or("--venv needs the directory of a virtual environment")?;
                args.venv = Some(std::path::absolute(dir)?);
            }
            flag if flag.starts_with('-') => {
                let usage = "cargo xtask bench --peers [--max] [--venv DIR] [NAME...]";
                return Err(format!("there is no flag `{flag}`: {usage}").into());
            }
            name => args.names.push(name.to_owned()),
        }
    }
    Ok(args)
}

/// Items whose names differ in `tpN` alone, which the table compares with each other; the others alone.
fn groups(items: &[String]) -> Vec<Vec<String>> {
    let without = |item: &str| {
        let ways = |part: &&str| part.strip_prefix("tp").is_some_and(|ways| ways.parse::<usize>().is_ok());
        item.split('/').filter(|part| !ways(part)).collect::<Vec<_>>().join("/")
    };
    let mut groups: Vec<Vec<String>> = Vec::new();
    for item in items {
        let own = |group: &&mut Vec<String>| group.iter().any(|other| without(other) == without(item));
        match groups.iter_mut().find(own) {
            Some(group) => group.push(item.clone()),
            None => groups.push(vec![item.clone()]),
        }
    }
    groups
}

/// Asks all who have the items, [`ROUNDS`] times in turn. Who gives no answer is not asked that again, and the others go on: their
/// rows, and why it is not all.
fn compare(items: &[String], ours: &mut Worker, others: &mut [Worker]) -> Result<(Vec<Row>, Vec<String>)> {
    let mut failures = Vec::new();
    // By item and the number of the worker; ours has none.
    let mut seconds: BTreeMap<(&str, Option<usize>), Vec<f64>> = BTreeMap::new();
    for item in std::iter::repeat_n(items, ROUNDS).flatten() {
        let workers = others.iter_mut().enumerate().map(|(i, other)| (Some(i), other));
        for (number, worker) in std::iter::once((None, &mut *ours)).chain(workers) {
            if !worker.has(item) {
                continue;
            }
            sleep(REST);
            let failed =
                |why: &str, about: &About| format!("{item} by {} ({}): {why}", about.peer, about.way);
            match worker.ask(item) {
                Answer::Seconds(value) => seconds.entry((item, number)).or_default().push(value),
                // Nobody else is of use without us.
                Answer::Lost(why) if number.is_none() => return Err(failed(&why, &worker.about).into()),
                Answer::Cannot(why) | Answer::Lost(why) => {
                    failures.push(failed(&why, &worker.about));
                    worker.about.items.retain(|known| known != item);
                }
            }
        }
    }
    let median = |item: &str, number| seconds.get(&(item, number)).map(|values| table::median(values));
    let row = |item: &String| {
        let others = (0..others.len()).filter_map(|i| Some((i, median(item, Some(i))?)));
        Some(Row { item: item.clone(), ours: median(item, None)?, others: others.collect() })
    };
    Ok((items.iter().filter_map(row).collect(), failures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_goes_around_together() {
        let items = ["x/tp1/8", "tp/1", "x/tp1/9", "x/tp2/8", "tp/2", "x/tp2/9"].map(str::to_owned);
        let want: [&[&str]; 4] = [&["x/tp1/8", "x/tp2/8"], &["tp/1"], &["x/tp1/9", "x/tp2/9"], &["tp/2"]];
        assert_eq!(groups(&items), want);
    }

    #[test]
    fn flags_and_names_are_read_and_mistakes_are_named() {
        let want = Args { max: true, venv: Some("/v".into()), names: vec!["matmul".to_owned()] };
        assert_eq!(parse(&["--max", "matmul", "--venv", "/v"]).unwrap(), want);
        assert_eq!(parse(&[]).unwrap(), Args::default());
        assert!(parse(&["--venv"]).unwrap_err().to_string().contains("needs the directory"));
        let does = |name: &str| DRIVERS.iter().filter(|driver| driver.does(&[name.to_owned()])).count();
        assert_eq!(["matmul", "redistribute/S0-R/1MiB", "elem", "nothing"].map(does), [2, 3, 5, 0]);
        assert!(parse(&["--all"]).unwrap_err().to_string().contains("--all"));
    }
}
