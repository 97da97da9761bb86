//! `tidy`: what a compiler does not check about this workspace. Each check is a pure function of the files and the
//! packages, in a file of its own, with a test that shows a fixture on which it fails.

mod architecture;
mod backend_features;
mod banned_word;
mod changelog;
mod forbid_unsafe;
mod layers;
mod links;
mod long_files;
mod machine_paths;
mod markdown;
mod op_files;
mod project;
mod safety_comments;
mod sibling_backends;
mod tokens;

use crate::run::{self, Result};
use project::{Problem, Project};

/// A check: what it finds wrong with the project.
type Check = fn(&Project) -> Vec<Problem>;

/// All checks by name.
const CHECKS: [(&str, Check); 13] = [
    ("layers", layers::check),
    ("sibling backends", sibling_backends::check),
    ("backend features", backend_features::check),
    ("op files", op_files::check),
    ("architecture page: what it names", architecture::check_names),
    ("architecture page: what it leaves out", architecture::check_coverage),
    ("links", links::check),
    ("forbid unsafe", forbid_unsafe::check),
    ("safety comments", safety_comments::check),
    ("banned word", banned_word::check),
    ("long files", long_files::check),
    ("machine paths", machine_paths::check),
    ("changelog", changelog::check),
];

/// Runs all checks on the workspace, prints every problem, and answers whether there was none.
pub(crate) fn run() -> Result<bool> {
    let project = Project::load(&run::root())?;
    let mut problems = 0;
    for (name, check) in CHECKS {
        for problem in check(&project) {
            println!("{problem} [{name}]");
            problems += 1;
        }
    }
    println!("tidy: {} checks, {problems} problems", CHECKS.len());
    Ok(problems == 0)
}
