//! `ARCHITECTURE.md` is a map, and a map must agree with the land: what it names exists, and no crate or module of core
//! is missing from it. It names things in backticks.

use super::markdown::{code_spans, prose};
use super::project::{Problem, Project};

/// The page.
const PAGE: &str = "ARCHITECTURE.md";

/// The directory of the crate whose modules the page has to name.
const CORE: &str = "sharding-core";

/// Checks that the paths and modules that the page names exist.
pub(super) fn check_names(project: &Project) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (line, span) in spans(project) {
        let wrong = if is_path(project, span) {
            (!path_exists(project, span)).then(|| "there is no such file or directory".to_owned())
        } else if let Some(segments) = module_path(span) {
            wrong_module(project, &segments)
        } else {
            None
        };
        problems.extend(wrong.map(|wrong| Problem::of_line(PAGE, line, format!("`{span}`: {wrong}"))));
    }
    problems
}

/// Checks that the page is there and names every crate, and every module at the top of core.
pub(super) fn check_coverage(project: &Project) -> Vec<Problem> {
    if !project.files.contains_key(PAGE) {
        return vec![Problem::of_path(PAGE, "is missing: it is the map of the crates")];
    }
    let spans: Vec<&str> = spans(project).map(|(_, span)| span).collect();
    let mut problems = Vec::new();
    for package in &project.packages {
        let dir = format!("{}/", package.dir);
        if !spans.iter().any(|span| *span == package.name || *span == package.dir || span.starts_with(&dir)) {
            problems.push(Problem::of_path(PAGE, format!("does not name the crate `{dir}`")));
        }
    }
    for module in top_modules(project) {
        if !spans.iter().any(|span| names_module(span, module)) {
            problems.push(Problem::of_path(PAGE, format!("does not name the module `{CORE}/src/{module}`")));
        }
    }
    problems
}

/// What stands in backticks on the page, with the line.
fn spans(project: &Project) -> impl Iterator<Item = (usize, &str)> {
    let text = project.files.get(PAGE).map_or("", String::as_str);
    prose(text).into_iter().flat_map(|(line, prose)| code_spans(prose).map(move |span| (line, span)))
}

/// Whether a span is meant as a path: it has a slash, and ends in one or in a file's extension or begins with a
/// directory that exists. (`tokens/second` is none.)
fn is_path(project: &Project, span: &str) -> bool {
    let characters = |c: char| c.is_ascii_alphanumeric() || "_-./*".contains(c);
    let Some((first, _)) = span.split_once('/') else { return false };
    let last = span.rsplit('/').next().unwrap_or_default();
    span.chars().all(characters)
        && !first.is_empty()
        && (last.is_empty() || last.contains('.') || project.exists(first))
}

/// Whether a path exists from the root, or from the `src` of a crate. A `*` stands for any part of a name.
fn path_exists(project: &Project, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let sources = project.packages.iter().map(|package| format!("{}/src/{path}", package.dir));
    let mut candidates = sources.chain([path.to_owned()]);
    candidates.any(|pattern| project.texts().any(|(file, _)| leads_to(&pattern, file)))
}

/// Whether a pattern names the file, or a directory that it lies in.
fn leads_to(pattern: &str, file: &str) -> bool {
    let mut names = file.split('/');
    pattern.split('/').all(|part| names.next().is_some_and(|name| part_matches(part, name)))
}

fn part_matches(part: &str, name: &str) -> bool {
    match part.split_once('*') {
        None => part == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
    }
}

/// The segments of a span such as `plan::pick`, `sharding_core::plan` or `rule::check()`; paths that begin with a type
/// (`Tensor::on`) are not the page's to keep.
fn module_path(span: &str) -> Option<Vec<&str>> {
    let segments: Vec<&str> = span.trim_end_matches("()").trim_end_matches('!').split("::").collect();
    let is_name = |segment: &&str| {
        segment.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && segment.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let first_is_module = segments[0].starts_with(|first: char| first.is_ascii_lowercase());
    (segments.len() > 1 && segments.iter().all(is_name) && first_is_module).then_some(segments)
}

/// What is wrong with a module path, if anything. Modules are followed as far as they are files; the item that comes
/// next must at least be named in the module it is said to be in.
fn wrong_module(project: &Project, segments: &[&str]) -> Option<String> {
    let (mut place, rest) = match start(project, segments) {
        Start::Foreign => return None,
        Start::Nowhere => return Some(format!("there is no crate or module `{}`", segments[0])),
        Start::At(place, used) => (place, &segments[used..]),
    };
    for segment in rest {
        let inner = format!("{place}/{segment}");
        if module_exists(project, &inner) {
            place = inner;
        } else {
            return (!mentions(project, &place, segment))
                .then(|| format!("nothing in {place} is named `{segment}`"));
        }
    }
    None
}

/// Where a module path begins.
enum Start {
    /// In a crate that is not of this workspace.
    Foreign,
    /// In no crate that is known.
    Nowhere,
    /// In a module, given by its path without `.rs`; so many segments are used up.
    At(String, usize),
}

fn start(project: &Project, segments: &[&str]) -> Start {
    let first = segments[0];
    let source = |dir: &str| format!("{dir}/src");
    if let Some(package) = project.packages.iter().find(|package| package.crate_name() == first) {
        return Start::At(source(&package.dir), 1);
    }
    // Core comes first: its modules are what the page mostly talks about.
    let dirs = std::iter::once(CORE).chain(project.packages.iter().map(|package| package.dir.as_str()));
    let mut places = dirs.map(source);
    if let Some(place) = places.find(|place| module_exists(project, &format!("{place}/{first}"))) {
        return Start::At(place, 0);
    }
    let mut dependencies = project.packages.iter().flat_map(|package| &package.dependencies);
    let is_known = ["std", "core", "alloc"].contains(&first)
        || dependencies.any(|dependency| dependency.name.replace('-', "_") == first);
    if is_known { Start::Foreign } else { Start::Nowhere }
}

fn module_exists(project: &Project, place: &str) -> bool {
    project.files.contains_key(&format!("{place}.rs")) || project.exists(&format!("{place}/"))
}

/// Whether the source of a module, or of one inside it, has the word.
fn mentions(project: &Project, place: &str, word: &str) -> bool {
    let file = format!("{place}.rs");
    let own = project.files.get(&file).map(String::as_str);
    own.into_iter()
        .chain(project.under(place).map(|(_, text)| text))
        .any(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word))
}

/// The modules at the top of core.
fn top_modules(project: &Project) -> Vec<&str> {
    let names = project.under(&format!("{CORE}/src")).filter_map(|(path, _)| {
        let name = path.split('/').nth(2)?;
        Some(name.strip_suffix(".rs").unwrap_or(name))
    });
    let mut names: Vec<&str> = names.filter(|name| !["lib", "main"].contains(name)).collect();
    names.dedup();
    names
}

/// Whether a span names a module of core: `plan`, `plan/`, `plan.rs`, `plan::pick`, or any of these from the root.
fn names_module(span: &str, module: &str) -> bool {
    let span =
        span.strip_prefix("sharding-core/src/").or(span.strip_prefix("sharding_core::")).unwrap_or(span);
    let rest = span.strip_prefix(module);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest == ".rs" || rest.starts_with('/') || rest.starts_with("::")
    })
}

#[cfg(test)]
mod tests {
    use super::super::project::fixture::{files, package, said};
    use super::*;

    fn project(page: &str) -> Project {
        let mut project = files([
            (PAGE, page),
            ("ops/src/matmul.rs", "pub fn matmul() {}"),
            ("sharding-core/src/lib.rs", "pub mod mesh; pub mod plan;"),
            ("sharding-core/src/mesh.rs", "pub struct DeviceMesh;"),
            ("sharding-core/src/plan/mod.rs", "mod pick;"),
            ("sharding-core/src/plan/pick.rs", "pub fn cheapest() {}"),
        ]);
        let ops = crate::metadata::Package { dir: "ops".to_owned(), ..package("sharding-ops", &["ndarray"]) };
        project.packages = vec![package(CORE, &[]), ops];
        project
    }

    const GOOD: &str = "`sharding-core/` has `mesh` and `plan/`, see `plan::pick::cheapest()`, `plan::cheapest`,
        `sharding_core::mesh::DeviceMesh`, `sharding-core/src/plan/pick.rs`, `plan/*.rs`, `ops/src/mat*.rs`, `ops/`,
        `Tensor::on`, `std::ops`, `ndarray::Array`, `sharding_ops::matmul`, `tokens/second`, `a -> b`\n```\n`gone/`\n```";

    #[test]
    fn a_true_map_passes() {
        let project = project(GOOD);
        assert_eq!(said(&check_names(&project)), "");
        assert_eq!(said(&check_coverage(&project)), "");
    }

    #[test]
    fn every_name_of_nothing_is_found() {
        for wrong in [
            "gone/",
            "sharding-core/src/planner/",
            "ops/src/*.toml",
            "plan/pack.rs",
            "plan::pack",
            "planner::pick",
            "sharding_core::planner",
            "sharding_ops::add",
        ] {
            let text = said(&check_names(&project(&format!("\nsee `{wrong}`"))));
            assert!(text.starts_with(&format!("ARCHITECTURE.md:2: `{wrong}`: ")), "{wrong}: {text}");
        }
    }

    #[test]
    fn what_the_page_leaves_out_is_found() {
        let text = said(&check_coverage(&project("`sharding-core/` has `mesh`, and planned things")));
        assert_eq!(
            text,
            "ARCHITECTURE.md: does not name the crate `ops/`\n\
             ARCHITECTURE.md: does not name the module `sharding-core/src/plan`"
        );
    }

    #[test]
    fn a_missing_page_is_a_problem() {
        let mut project = project("");
        project.files.remove(PAGE);
        assert_eq!(
            said(&check_coverage(&project)),
            "ARCHITECTURE.md: is missing: it is the map of the crates"
        );
    }
}
