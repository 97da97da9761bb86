//! The workspace's packages, as `cargo metadata` tells them.

use std::path::Path;

use serde_json::Value;

use crate::run::{self, Result};

/// A package of the workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its directory, relative to the workspace's root, with `/` between the parts.
    pub(crate) dir: String,
    /// What it depends on, for any purpose (tests and build scripts too).
    pub(crate) dependencies: Vec<Dependency>,
}

/// One entry of a package's dependencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependency {
    /// Name of the package depended on.
    pub(crate) name: String,
    /// Features that the entry asks for.
    pub(crate) features: Vec<String>,
    /// Whether a feature of the package must be on for it.
    pub(crate) optional: bool,
    /// Whether only tests and examples see it.
    pub(crate) dev: bool,
}

impl Package {
    /// The name that Rust code uses for the package.
    pub(crate) fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// Asks cargo for the packages of the workspace at `root`. Needs no network.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    parse(&run::capture(run::cargo(arguments).current_dir(root))?)
}

fn parse(json: &str) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(json)?;
    let root = text(&metadata, "workspace_root")?;
    list(&metadata, "packages")?.iter().map(|package| parse_package(package, root)).collect()
}

fn parse_package(package: &Value, root: &str) -> Result<Package> {
    let manifest = text(package, "manifest_path")?.replace('\\', "/");
    let dir =
        manifest.strip_prefix(&root.replace('\\', "/")).and_then(|path| path.strip_suffix("Cargo.toml"));
    let dir = dir.ok_or_else(|| format!("the manifest {manifest} lies outside of the workspace"))?;
    Ok(Package {
        name: text(package, "name")?.to_owned(),
        dir: dir.trim_matches('/').to_owned(),
        dependencies: list(package, "dependencies")?.iter().map(parse_dependency).collect::<Result<_>>()?,
    })
}

fn parse_dependency(dependency: &Value) -> Result<Dependency> {
    let features = list(dependency, "features")?.iter().filter_map(Value::as_str);
    Ok(Dependency {
        name: text(dependency, "name")?.to_owned(),
        features: features.map(str::to_owned).collect(),
        optional: dependency["optional"].as_bool().unwrap_or(false),
        dev: dependency["kind"].as_str() == Some("dev"),
    })
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().ok_or_else(|| format!("`cargo metadata` gives no text `{field}`").into())
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value[field].as_array().ok_or_else(|| format!("`cargo metadata` gives no list `{field}`").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_itself_is_read() {
        let packages = packages(&run::root()).unwrap();
        let ops = packages.iter().find(|package| package.name == "sharding-ops").unwrap();
        assert_eq!((ops.dir.as_str(), ops.crate_name().as_str()), ("ops", "sharding_ops"));
        let cpu = ops.dependencies.iter().find(|dependency| dependency.name == "backend-cpu").unwrap();
        assert!(cpu.optional);
    }

    #[test]
    fn an_answer_without_packages_is_an_error() {
        let error = parse(r#"{"workspace_root": "w"}"#).unwrap_err().to_string();
        assert_eq!(error, "`cargo metadata` gives no list `packages`");
    }
}
