//! Unsafe code is forbidden, not merely absent, where none is needed.

use super::project::{Problem, Project};
use super::tokens::{starts_with, tokens};

/// The directories of the packages that forbid it.
const SAFE: [&str; 4] = ["sharding-core", "sharding-macros", "ops", "backend-sim"];

/// Checks that each of these packages forbids unsafe code, in its manifest or at the top of its library.
pub(super) fn check(project: &Project) -> Vec<Problem> {
    let text_of = |path: String| project.files.get(&path).map_or("", String::as_str);
    let forbids = |dir: &&str| {
        lints_forbid(text_of(format!("{dir}/Cargo.toml")))
            || attribute_forbids(text_of(format!("{dir}/src/lib.rs")))
    };
    let missing = SAFE.iter().filter(|dir| !forbids(dir));
    let text = "must forbid unsafe code: `unsafe_code = \"forbid\"` under [lints.rust], or `#![forbid(unsafe_code)]`";
    missing.map(|dir| Problem::of_path(format!("{dir}/Cargo.toml"), text)).collect()
}

fn lints_forbid(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints.rust]").skip(1);
    lines
        .by_ref()
        .take_while(|line| !line.starts_with('['))
        .any(|line| line.starts_with("unsafe_code") && line.contains("\"forbid\""))
}

fn attribute_forbids(library: &str) -> bool {
    let tokens = tokens(library);
    let attribute = ["#", "!", "[", "forbid", "(", "unsafe_code"];
    (0..tokens.len()).any(|at| starts_with(&tokens, at, &attribute))
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, said};
    use super::*;

    #[test]
    fn both_spellings_count_and_nothing_else() {
        let good = "[lints.rust]\nmissing_docs = \"deny\"\nunsafe_code = \"forbid\"\n";
        let text = said(&check(&files([
            ("sharding-core/Cargo.toml", good),
            ("sharding-macros/src/lib.rs", "//! Docs.\n#![forbid(unsafe_code)]"),
            ("ops/Cargo.toml", "[lints.rust]\nunsafe_code = \"deny\"\n[other]\nunsafe_code = \"forbid\""),
            ("backend-sim/src/lib.rs", "// #![forbid(unsafe_code)]"),
        ])));
        let dirs: Vec<_> = text.lines().filter_map(|line| line.split('/').next()).collect();
        assert_eq!(dirs, ["ops", "backend-sim"], "{text}");
    }
}
