//! The Python in which the other systems run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{self, Result};

/// Where the drivers and the lists of packages are.
pub(super) fn directory() -> PathBuf {
    run::root().join("proof").join("peers")
}

/// The interpreter of a virtual environment: of the one given, which is used as it is, or of one in `target/peers`, which
/// is made and brought to the versions in the lists.
pub(super) fn python(given: Option<&Path>, max: bool) -> Result<PathBuf> {
    if let Some(dir) = given {
        let python = interpreter(dir);
        return if python.is_file() {
            Ok(python)
        } else {
            Err(format!("{} is no virtual environment: it has no {}", dir.display(), python.display()).into())
        };
    }
    let dir = run::root().join("target").join("peers");
    let python = interpreter(&dir);
    // One whose making was interrupted has an interpreter and nothing to install with.
    if !python.is_file() || !has(&python, "pip") {
        run::check(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    }
    let lists = ["requirements.txt"].into_iter().chain(max.then_some("requirements-max.txt"));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    for list in lists {
        pip.arg("-r").arg(directory().join(list));
    }
    run::check(&mut pip)?;
    Ok(python)
}

/// Whether the interpreter finds a module.
fn has(python: &Path, module: &str) -> bool {
    let find = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)";
    Command::new(python).args(["-c", find, module]).status().is_ok_and(|status| status.success())
}

/// Says which of these modules an environment lacks, and how to install them.
pub(super) fn check(python: &Path, modules: &[&str]) -> Result<()> {
    let missing: Vec<&str> = modules.iter().copied().filter(|module| !has(python, module)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} does not find {}: install what proof/peers/requirements.txt (for MAX requirements-max.txt) lists, or leave \
         --venv out to have an environment made",
        python.display(),
        missing.join(", ")
    )
    .into())
}

fn interpreter(dir: &Path) -> PathBuf {
    if cfg!(windows) { dir.join("Scripts").join("python.exe") } else { dir.join("bin").join("python") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_an_interpreter_is_refused() {
        let error = python(Some(&directory()), false).unwrap_err().to_string();
        assert!(error.contains("is no virtual environment"), "{error}");
        for list in ["requirements.txt", "requirements-max.txt"] {
            let text = std::fs::read_to_string(directory().join(list)).unwrap();
            let packages = text.lines().filter(|line| !line.starts_with('#'));
            assert!(packages.into_iter().all(|line| line.contains("==")), "{list} pins every version");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let python = Path::new("python3");
        if !has(python, "json") {
            println!("SKIPPED: no python3");
            return;
        }
        assert!(check(python, &["json", "sys"]).is_ok());
        let error = check(python, &["json", "no_such_module_1", "no_such_module_2"]).unwrap_err().to_string();
        assert!(error.contains("does not find no_such_module_1, no_such_module_2: install"), "{error}");
    }
}
