//! Dependencies point one way: `checkpoint -> ops -> backend-* -> sharding-core -> sharding-macros`, but for what a package's tests need to see.

use super::project::{Problem, Project};

/// Programs and examples: they may use every layer, and no layer uses them.
const TOP: usize = 5;

/// The layer of a package of this workspace.
fn layer(package: &str) -> usize {
    match package {
        "sharding-macros" => 0,
        "sharding-core" => 1,
        "sharding-ops" => 3,
        "sharding-checkpoint" => 4,
        name if name.starts_with("backend-") => 2,
        _ => TOP,
    }
}

/// What a package's own tests may see: the core's suites are behind a feature of the core, and what the attributes expand
/// to is compiled against the core. Nothing that is not a test gets these.
const TESTED_THROUGH: [(&str, &str); 2] =
    [("sharding-core", "sharding-core"), ("sharding-macros", "sharding-core")];

/// Checks every dependency between packages of the workspace, and who sees cudarc.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let mut problems = missing_layers(project);
    for package in &project.packages {
        let manifest = format!("{}/Cargo.toml", package.dir);
        for dependency in &package.dependencies {
            let (from, to) = (package.name.as_str(), dependency.name.as_str());
            let tests_itself = dependency.dev && TESTED_THROUGH.contains(&(from, to));
            if project.package(to).is_some()
                && layer(from) != TOP
                && layer(to) >= layer(from)
                && !tests_itself
            {
                let text = format!(
                    "{from} must not depend on {to}: checkpoint -> ops -> backend-* -> sharding-core -> sharding-macros"
                );
                problems.push(Problem::of_path(&manifest, text));
            }
            if to == "cudarc" && from != "backend-cuda" {
                let text = format!("{from} must not depend on cudarc: only backend-cuda does");
                problems.push(Problem::of_path(&manifest, text));
            }
        }
    }
    problems
}

/// A layer that is not found would make its rules hold for nothing.
fn missing_layers(project: &Project) -> Vec<Problem> {
    let names = ["sharding-macros", "sharding-core", "backend-cpu", "sharding-ops", "sharding-checkpoint"];
    let missing =
        (0..TOP).filter(|wanted| !project.packages.iter().any(|package| layer(&package.name) == *wanted));
    missing
        .map(|at| Problem::of_path("Cargo.toml", format!("no package like {} was found", names[at])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{package, said};
    use super::*;

    /// A workspace in order, but for one more dependency.
    fn with(from: &str, to: &str) -> Project {
        let mut packages = vec![
            package("sharding-macros", &["syn"]),
            package("sharding-core", &["sharding-macros"]),
            package("backend-cpu", &["sharding-core"]),
            package("backend-cuda", &["sharding-core", "cudarc"]),
            package("sharding-ops", &["sharding-core", "sharding-macros", "backend-cpu", "backend-cuda"]),
            package("sharding-checkpoint", &["sharding-core", "sharding-ops"]),
            package("proof", &["sharding-ops", "xtask"]),
            package("xtask", &[]),
        ];
        let package = packages.iter_mut().find(|package| package.name == from).unwrap();
        package.dependencies.push(crate::metadata::Dependency { name: to.to_owned(), ..Default::default() });
        Project { packages, ..Project::default() }
    }

    #[test]
    fn a_workspace_in_order_passes() {
        assert_eq!(check(&with("proof", "backend-cpu")), []);
    }

    #[test]
    fn every_wrong_direction_is_found() {
        for (from, to) in [
            ("sharding-macros", "sharding-core"),
            ("sharding-core", "backend-cpu"),
            ("sharding-core", "sharding-ops"),
            ("backend-cpu", "backend-cuda"),
            ("backend-cpu", "sharding-ops"),
            ("sharding-ops", "proof"),
            ("sharding-ops", "sharding-checkpoint"),
            ("sharding-checkpoint", "proof"),
            ("sharding-core", "xtask"),
        ] {
            let text = said(&check(&with(from, to)));
            assert!(
                text.starts_with(&format!("{from}/Cargo.toml: {from} must not depend on {to}")),
                "{text}"
            );
        }
    }

    #[test]
    fn only_tests_of_the_macros_see_the_core() {
        let mut project = with("sharding-macros", "sharding-core");
        let macros = project.packages.iter_mut().find(|package| package.name == "sharding-macros").unwrap();
        macros.dependencies.iter_mut().for_each(|dependency| dependency.dev = true);
        assert_eq!(check(&project), []);
    }

    #[test]
    fn only_one_backend_sees_cudarc() {
        let text = said(&check(&with("sharding-ops", "cudarc")));
        assert_eq!(
            text,
            "sharding-ops/Cargo.toml: sharding-ops must not depend on cudarc: only backend-cuda does"
        );
    }

    #[test]
    fn a_layer_that_is_not_there_is_a_problem() {
        let mut project = with("proof", "backend-cpu");
        project.packages.retain(|package| package.name != "sharding-core");
        assert_eq!(said(&check(&project)), "Cargo.toml: no package like sharding-core was found");
    }
}
