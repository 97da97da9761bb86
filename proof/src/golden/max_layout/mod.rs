//! Suite `max_layout`: splits, shapes, names, meshes and transition costs, computed by MAX.
//!
//! Sizes and tensor axes that our API cannot spell (negative, symbolic) count as refused, and pass: what a system
//! accepts there is its own matter.

mod mesh;
mod names;
mod shapes;
mod transition;

use super::json::{Node, Parsed};
use super::report::{Report, Verdict};
use sharding_core::Result;

/// Fields of the file that are no groups of cases.
const HEAD: [&str; 4] = ["suite", "source", "format", "mesh_note"];

type Replay = fn(&Node<'_>) -> Parsed<Verdict>;

/// The groups whose items are cases.
const GROUPS: [(&str, Replay); 8] = [
    ("even_shard_sizes", shapes::even_shard_sizes),
    ("local_shapes", shapes::local_shapes),
    ("global_shape", shapes::global_shape),
    ("layout_checks", shapes::layout_checks),
    ("named_mapping", names::named_mapping),
    ("named_mapping_default", names::named_mapping_default),
    ("mesh", mesh::mesh),
    ("axis_size_device_coord", mesh::axis_size_device_coord),
];

pub(super) fn replay(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    for (group, replay) in GROUPS {
        for case in root.optional(group).map_or(Ok(Vec::new()), |group| group.list())? {
            report.case(&case.id(), || replay(&case));
        }
    }
    transition::replay_costs(root, report)?;
    transition::replay_sets(root, report)?;
    let known = |name: &str| {
        HEAD.contains(&name)
            || transition::GROUPS.contains(&name)
            || GROUPS.iter().any(|(group, _)| *group == name)
    };
    for (name, group) in root.value().as_object().into_iter().flatten().filter(|(name, _)| !known(name)) {
        let cases = group.as_array().map_or(1, Vec::len);
        report.skip("max_layout", &format!("there is no replay of the group {name} yet"), cases);
    }
    Ok(())
}

/// A case of what may be refused: `want` holds an error, or something that `compare` looks at.
fn checked<T: std::fmt::Debug>(
    want: &Node<'_>,
    got: Result<T>,
    compare: impl FnOnce(&Node<'_>, T) -> Parsed<Verdict>,
) -> Parsed<Verdict> {
    if want.has("error") {
        return Ok(Verdict::error(&got));
    }
    match got {
        Ok(got) => compare(want, got),
        Err(error) => Ok(Verdict::failed(want.value().to_string(), error.to_string())),
    }
}
