//! What the checks look at: the text of every file, and the packages.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::metadata::{self, Package};
use crate::run::{self, Result};

/// The files and packages of a workspace.
#[derive(Debug, Default)]
pub(super) struct Project {
    /// Every file by its path from the root, with `/` between the parts; files that are no text have an empty one.
    pub(super) files: BTreeMap<String, String>,
    /// The packages.
    pub(super) packages: Vec<Package>,
}

impl Project {
    /// Reads the files that git tracks or would track, so that a new file is checked before it is committed.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let list = run::capture(Command::new("git").args(arguments).current_dir(root))?;
        let mut files = BTreeMap::new();
        for path in list.split_terminator('\0') {
            // What is deleted but still tracked is no file any more; nor is a submodule.
            if root.join(path).is_file() {
                let bytes =
                    fs::read(root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
                files.insert(path.to_owned(), String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(Self { files, packages: metadata::packages(root)? })
    }

    /// Whether a path, with or without a slash at its end, is a file or a directory.
    pub(super) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains_key(path) || self.under(path).next().is_some()
    }

    /// Path and text of the files below a directory.
    pub(super) fn under<'a>(&'a self, dir: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let prefix = format!("{}/", dir.trim_end_matches('/'));
        self.texts().filter(move |(path, _)| path.starts_with(&prefix))
    }

    /// Path and text of the files whose names end in one of these extensions.
    pub(super) fn with_extension<'a>(
        &'a self,
        extensions: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(|(path, _)| {
            path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
        })
    }

    /// Path and text of all files.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// A package by its name.
    pub(super) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    path: String,
    line: Option<usize>,
    text: String,
}

impl Problem {
    /// About a file or directory as a whole.
    pub(super) fn of_path(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), line: None, text: text.into() }
    }

    /// About a line, counted from 1.
    pub(super) fn of_line(path: impl Into<String>, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.into(), line: Some(line), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path)?;
        self.line.map_or(Ok(()), |line| write!(f, "{line}:"))?;
        write!(f, " {}", self.text)
    }
}

/// Fixtures for the tests of the checks.
#[cfg(test)]
pub(super) mod fixture {
    use super::*;
    use crate::metadata::Dependency;

    /// A project of these files.
    pub(in crate::tidy) fn files<P: Into<String>, T: Into<String>>(
        files: impl IntoIterator<Item = (P, T)>,
    ) -> Project {
        let files = files.into_iter().map(|(path, text)| (path.into(), text.into()));
        Project { files: files.collect(), packages: Vec::new() }
    }

    /// A package in a directory of its name, that depends on these.
    pub(in crate::tidy) fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency { name: (*name).to_owned(), ..Dependency::default() };
        Package {
            name: name.to_owned(),
            dir: name.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    /// What a check says, one problem a line.
    pub(in crate::tidy) fn said(problems: &[Problem]) -> String {
        problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_loaded_with_its_new_files() {
        let project = Project::load(&run::root()).unwrap();
        assert!(project.files["Cargo.toml"].contains("[workspace]"));
        assert!(project.exists("xtask/src/") && project.exists("xtask/src/tidy.rs"));
        assert!(!project.exists("xtask/sr") && !project.exists("target"));
        assert!(project.package("xtask").is_some());
    }
}
