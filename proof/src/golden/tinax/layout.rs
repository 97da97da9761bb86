//! `layout`.

use super::mesh::described;
use super::misuse::{ENTRY, LIST, Outcome, Read};
use crate::golden::json::{Node, Parsed};
use serde_json::{Value, json};
use sharding_core::{NamedSharding, PartitionSpec, Result, SpecEntry, layout};

pub(super) fn replay(input: &Node<'_>) -> Parsed<Outcome> {
    Ok(match made(input.value()) {
        Ok(sharding) => Outcome::Called(
            sharding.map(|sharding| sharding.spec().entries().iter().map(spelled).collect::<Vec<_>>().into()),
        ),
        Err(reason) => Outcome::Unwritable(reason),
    })
}

/// The layout that `mesh` and `partitions` say.
pub(super) fn made(input: &Value) -> Read<Result<NamedSharding>> {
    let (mesh, spec) = (described(&input["mesh"])?, spec(&input["partitions"])?);
    Ok(mesh.and_then(|mesh| layout(&mesh, spec)))
}

/// One entry per tensor axis: null, a name or names; no names at all are none in our types.
pub(super) fn spec(partitions: &Value) -> Read<PartitionSpec> {
    let entries: Vec<SpecEntry> =
        partitions.as_array().ok_or(LIST)?.iter().map(entry).collect::<Read<_>>()?;
    Ok(PartitionSpec::new(entries))
}

fn entry(entry: &Value) -> Read<SpecEntry> {
    match entry {
        Value::Null => Ok(SpecEntry::none()),
        Value::String(name) => Ok(SpecEntry::from(name.as_str())),
        Value::Array(names) if !names.is_empty() => {
            let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
            names.map(SpecEntry::several).ok_or(ENTRY)
        }
        _ => Err(ENTRY),
    }
}

fn spelled(entry: &SpecEntry) -> Value {
    let names: Vec<&str> = entry.names().collect();
    match names.as_slice() {
        [] => Value::Null,
        [name] => json!(name),
        names => json!(names),
    }
}
