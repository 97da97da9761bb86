//! Suite `tinax`: meshes, layouts, host arrays, data of one process and manual regions, run through tinax.
//!
//! A function is a file here. Errors are compared by category ([`misuse`] is the one place that says how): misuse that our types
//! make unwritable counts as passed, and each kind of it is printed with its number.

mod layout;
mod local_data;
mod mesh;
mod misuse;
mod overrides;
mod place;
mod shard_mapped;
#[cfg(test)]
mod tests;
mod values;

use super::json::{Node, Parsed};
use super::report::{Report, Verdict};
use super::room;
use misuse::Outcome;

/// What a case gives: an outcome to be judged by the error that is wanted, if one is, and else compared with `want`.
type Replay = fn(&Node<'_>) -> Parsed<Outcome>;

const FUNCTIONS: [(&str, Replay); 6] = [
    ("make_mesh", mesh::replay),
    ("layout", layout::replay),
    ("place_host_array", place::replay),
    ("from_process_local_data", local_data::replay),
    ("from_process_local_data_args", overrides::replay),
    ("shard_mapped", shard_mapped::replay),
];

pub(super) fn replay(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    for case in root.field("cases")?.list()? {
        let mut note = None;
        report.case(&case.id(), || {
            let function = case.field("fn")?.text()?;
            let Some((_, replay)) = FUNCTIONS.iter().find(|(name, _)| *name == function) else {
                return Ok(Verdict::Skipped(format!("there is no replay of the function: {function}")));
            };
            let input = case.field("input")?;
            bounded(&input)?;
            let outcome = replay(&input)?;
            let (verdict, said) = misuse::judge(&case, outcome)?;
            note = said;
            Ok(verdict)
        });
        if let Some(note) = note {
            report.note(&note);
        }
    }
    Ok(())
}

/// Refuses an input that asks for too much, where it has sizes.
fn bounded(input: &Node<'_>) -> Parsed<()> {
    let sizes = |node: &Node<'_>| misuse::sizes(node.value()).ok().and_then(Result::ok);
    if let Some(shape) = input.optional("mesh").and_then(|mesh| mesh.optional("shape"))
        && let Some(sizes) = sizes(&shape)
    {
        room::devices(&shape, &sizes)?;
    }
    for shape in ["shape", "local_shape", "global_shape"].iter().filter_map(|name| input.optional(name)) {
        if let Some(sizes) = sizes(&shape) {
            room::elements(&shape, &sizes)?;
        }
    }
    Ok(())
}

/// Compares the fields of `want`, each with what ours says of it.
fn compare(want: &Node<'_>, got: &serde_json::Value) -> Verdict {
    if !want.value().is_object() {
        return Verdict::equal("", want.value().clone(), got.clone());
    }
    let fields = want.value().as_object().into_iter().flatten();
    fields.fold(Verdict::Passed, |verdict, (field, wanted)| {
        verdict.and(|| Verdict::equal(field, wanted.clone(), got.get(field).cloned().unwrap_or_default()))
    })
}
