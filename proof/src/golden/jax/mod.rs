//! Suite `jax`: shardings, specs, meshes and placed arrays, computed by JAX.
//!
//! A kind of case is a file here. Where an error is wanted, ours is one of the same kind (`refusal`); texts are not compared. A
//! case whose note says that it is a quirk is not required.

mod equivalent;
mod gspmd;
mod mesh;
mod named_sharding;
mod partition_spec;
mod placed;
mod pmap;
mod positional;
mod query;
mod refusal;
mod single_device;
mod spelling;
#[cfg(test)]
mod tests;

use super::json::{Node, Parsed};
use super::report::{Report, Verdict};

type Replay = fn(&Node<'_>) -> Parsed<Verdict>;

/// The kinds of cases.
const KINDS: [(&str, Replay); 14] = [
    ("device_put", placed::device_put),
    ("equivalent", equivalent::replay),
    ("from_single_device_arrays", placed::from_single_device_arrays),
    ("gspmd", gspmd::replay),
    ("gspmd_equal", gspmd::replay_equal),
    ("gspmd_named_equivalent", gspmd::replay_named_equivalent),
    ("mesh", mesh::replay),
    ("named_sharding", named_sharding::replay),
    ("partition_spec", partition_spec::replay),
    ("partition_spec_eq", partition_spec::replay_eq),
    ("pmap", pmap::replay),
    ("positional", positional::replay),
    ("positional_named_equivalent", positional::replay_named_equivalent),
    ("single_device", single_device::replay),
];

pub(super) fn replay(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    for case in root.field("cases")?.list()? {
        report.case(&case.id(), || {
            let kind = case.field("kind")?.text()?;
            match KINDS.iter().find(|(name, _)| *name == kind) {
                Some((_, replay)) => waived(&case, replay(&case)?),
                None => Ok(Verdict::Skipped(format!("there is no replay of the kind: {kind}"))),
            }
        });
    }
    Ok(())
}

/// A failure that the file itself calls a quirk of JAX is no failure.
fn waived(case: &Node<'_>, verdict: Verdict) -> Parsed<Verdict> {
    let quirk = case.optional("note").is_some_and(|note| note.value().to_string().contains("quirk"));
    Ok(match verdict {
        Verdict::Failed { .. } if quirk => Verdict::Skipped("a quirk that is not copied".to_owned()),
        verdict => verdict,
    })
}
