//! The directory of the model, and files in it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, wrong};

/// What brings the model.
const FIX: &str = "cargo xtask model, or --model DIR with model.safetensors, config.json and tokenizer.json";

/// The files of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFiles {
    /// The weights.
    pub weights: PathBuf,
    /// The sizes.
    pub config: PathBuf,
    /// The tokenizer.
    pub tokenizer: PathBuf,
}

impl ModelFiles {
    /// The files in `dir`, else in the directory that `cargo xtask model` fills.
    ///
    /// # Errors
    /// If one of them is missing, or no directory is known.
    pub fn find(dir: Option<&Path>) -> Result<Self> {
        let dir = match dir {
            Some(dir) => dir.to_owned(),
            None => cache_dir(|name| std::env::var_os(name))?,
        };
        let file = |name: &str| {
            let path = dir.join(name);
            if path.is_file() {
                return Ok(path);
            }
            let message = if dir.is_dir() {
                format!("there is no {name} in {}", dir.display())
            } else {
                format!("there is no directory {}", dir.display())
            };
            Err(wrong(message).with_fix(FIX))
        };
        Ok(Self {
            weights: file("model.safetensors")?,
            config: file("config.json")?,
            tokenizer: file("tokenizer.json")?,
        })
    }
}

/// Where `cargo xtask model` puts the model, by the environment. A variable that is empty counts as unset.
fn cache_dir(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SHARDING_MODEL_DIR")
        .or_else(|| set("XDG_CACHE_HOME"))
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|base| base.join("sharding").join("all-MiniLM-L6-v2"))
        .ok_or_else(|| {
            wrong("no directory of the model is known: neither SHARDING_MODEL_DIR nor XDG_CACHE_HOME nor HOME is set")
                .with_fix("--model DIR")
        })
}

/// The text of a file.
///
/// # Errors
/// If it cannot be read or is not UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: std::io::Error) -> crate::Error {
    wrong(format!("cannot read {}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_that_of_the_task() {
        let dir_with = |variables: &[(&str, &str)]| {
            cache_dir(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        let place = "sharding/all-MiniLM-L6-v2";
        let [home, cache] = [("HOME", "/h"), ("XDG_CACHE_HOME", "/x")];
        assert_eq!(dir_with(&[home]).unwrap(), Path::new("/h/.cache").join(place));
        assert_eq!(dir_with(&[home, cache]).unwrap(), Path::new("/x").join(place));
        let all = [home, cache, ("SHARDING_MODEL_DIR", "/m")];
        assert_eq!(dir_with(&all).unwrap(), Path::new("/m").join(place));
        assert_eq!(dir_with(&[home, ("XDG_CACHE_HOME", "")]).unwrap(), Path::new("/h/.cache").join(place));
        assert!(dir_with(&[]).unwrap_err().to_string().contains("--model DIR"));
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_brings_it() {
        let error = ModelFiles::find(Some(Path::new("no/such/dir"))).unwrap_err().to_string();
        assert!(error.contains("no directory no/such/dir") && error.contains("cargo xtask model"), "{error}");
        let error = ModelFiles::find(Some(Path::new("src"))).unwrap_err().to_string();
        assert!(error.contains("no model.safetensors in src"), "{error}");
    }
}
