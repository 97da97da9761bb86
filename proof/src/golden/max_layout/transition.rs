//! Transitions on one mesh axis: which collective, at what score, and the two named sets.

use crate::golden::json::{Node, Parsed};
use crate::golden::report::{Report, Verdict};
use crate::golden::spelling::{nameless_mesh, place};
use sharding_core::placement::{ALL_TRANSITIONS, DEFAULT_TRANSITIONS};
use sharding_core::plan::{CostModel, VolumeCost};

pub(super) const GROUPS: [&str; 2] = ["transition_cost", "transition_sets"];

/// The tensor that a cost is for.
const BYTES: f64 = 1024.0;

pub(super) fn replay_costs(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    let Some(group) = root.optional("transition_cost") else { return Ok(()) };
    for (i, row) in group.field("rows")?.list()?.iter().enumerate() {
        report.case(&format!("transition_cost/{i}"), || cost(row));
    }
    Ok(())
}

/// A row: mesh shape, mesh axis, from, to, collective, and the score for [`BYTES`], null where it is infinite.
fn cost(row: &Node<'_>) -> Parsed<Verdict> {
    let cells = row.list()?;
    let [shape, axis, from, to, collective, score] = &cells[..] else {
        return Err(row.expected("mesh, mesh axis, from, to, collective and cost"));
    };
    let mesh = match nameless_mesh(shape)? {
        Ok(mesh) => mesh,
        Err(error) => return Ok(Verdict::failed("a mesh", error.to_string())),
    };
    let (axis, want) = (axis.size()?, collective.text()?);
    let (Ok(from), Ok(to)) = (place(from)?, place(to)?) else { return Ok(Verdict::Passed) };
    // The extent plays no part between placements that are built in.
    let transition = from.transition_to(to, 64, mesh.size(axis));
    let name = match want {
        "noop" => "no_op",
        "allgather" => "all_gather",
        "allreduce" => "all_reduce",
        other => other,
    };
    let want = if score.is_null() { f64::INFINITY } else { score.number()? };
    let got = VolumeCost.transition(transition, BYTES, &mesh, axis);
    Ok(Verdict::equal("the collective", name, transition.name())
        .and(|| Verdict::equal("the cost", want, got)))
}

pub(super) fn replay_sets(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    let Some(group) = root.optional("transition_sets") else { return Ok(()) };
    for (name, set) in [("ALL", ALL_TRANSITIONS), ("DEFAULT", DEFAULT_TRANSITIONS)] {
        let Some(want) = group.optional(name) else { continue };
        report.case(&format!("transition_sets/{name}"), || {
            let mut want = want.list_of(Node::text)?;
            let mut got: Vec<&str> = set.kinds().map(|kind| kind.name()).collect();
            want.sort_unstable();
            got.sort_unstable();
            Ok(Verdict::equal("transitions", want, got))
        });
    }
    Ok(())
}
