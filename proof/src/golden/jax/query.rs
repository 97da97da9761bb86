//! The questions that every kind of sharding answers, against what JAX answered.

use super::refusal;
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use sharding_core::{Region, Result, Shape, Sharding};

/// Whether the error of a case is that there is no such sharding.
pub(super) fn fails_at_once(case: &Node<'_>) -> Parsed<bool> {
    case.optional("error").map_or(Ok(false), |error| Ok(error.field("stage")?.text()? == "construct"))
}

/// Compares what is wanted of a sharding that could be made: the error of a later stage, or the fields of `want` (or of
/// `partial`, what was answered before the error).
pub(super) fn compare(case: &Node<'_>, sharding: &dyn Sharding, shape: &Shape) -> Parsed<Verdict> {
    if let Some(partial) = case.optional("partial") {
        let verdict = fields(&partial, sharding, shape)?;
        if verdict != Verdict::Passed {
            return Ok(verdict);
        }
    }
    match case.optional("error") {
        None => fields(&case.field("want")?, sharding, shape),
        Some(error) => match error.field("stage")?.text()? {
            // One question in ours: the number of axes is checked before divisibility.
            "check_rank" | "shard_shape" => refusal::compare(&error, sharding.shard_shape(shape)),
            "devices_indices_map" => refusal::compare(
                &error,
                sharding
                    .devices_indices_map(shape)
                    .map(|map| map.map(|(_, region)| region).collect::<Vec<_>>()),
            ),
            _ => Err(error.field("stage")?.expected("a stage of a sharding")),
        },
    }
}

fn fields(want: &Node<'_>, sharding: &dyn Sharding, shape: &Shape) -> Parsed<Verdict> {
    let mut verdict = Verdict::Passed;
    if let Some(node) = want.optional("shard_shape") {
        let wanted = Shape::from(node.list_of(Node::size)?);
        verdict = verdict.and(|| answered("the shape of a shard", wanted, sharding.shard_shape(shape)));
    }
    if let Some(node) = want.optional("fully_replicated") {
        let wanted = node.truth()?;
        verdict = verdict.and(|| Verdict::equal("replicated", wanted, sharding.is_fully_replicated()));
    }
    if let Some(node) = want.optional("memory_kind") {
        let wanted = Some(node.text()?);
        verdict =
            verdict.and(|| Verdict::equal("memory", wanted, sharding.memory_kind().map(|kind| kind.name())));
    }
    if let Some(node) = want.optional("num_devices") {
        let wanted = node.size()?;
        verdict = verdict.and(|| Verdict::equal("devices", wanted, sharding.num_devices()));
    }
    if let Some(node) = want.optional("indices") {
        let range = |node: &Node<'_>| node.list_of(Node::size);
        let wanted = node.list_of(|device| device.list_of(range))?;
        let number = sharding.num_devices();
        verdict = verdict.and(|| Verdict::equal("devices", wanted.len(), number));
        verdict = verdict.and(|| answered("indices", wanted.clone(), listed(sharding, shape)));
        // One device at a time answers the same.
        verdict = verdict.and(|| answered("indices by device", wanted, by_device(sharding, shape)));
    }
    if let Some(node) = want.optional("replica_ids") {
        let wanted = node.list_of(Node::size)?;
        verdict = verdict.and(|| answered("replica ids", wanted, replica_ids(sharding, shape)));
    }
    Ok(verdict)
}

fn answered<T: PartialEq + std::fmt::Debug>(what: &str, wanted: T, got: Result<T>) -> Verdict {
    match got {
        Ok(got) => Verdict::equal(what, wanted, got),
        Err(error) => Verdict::failed(format!("{what} {wanted:?}"), error.to_string()),
    }
}

fn bounds(region: &Region) -> Vec<Vec<usize>> {
    region.iter().flatten().map(|range| vec![range.start, range.end]).collect()
}

fn listed(sharding: &dyn Sharding, shape: &Shape) -> Result<Vec<Vec<Vec<usize>>>> {
    Ok(sharding.devices_indices_map(shape)?.map(|(_, region)| bounds(&region)).collect())
}

fn by_device(sharding: &dyn Sharding, shape: &Shape) -> Result<Vec<Vec<Vec<usize>>>> {
    let map = sharding.devices_indices_map(shape)?;
    sharding.device_set()?.map(|device| Ok(bounds(&map.of(device)?))).collect()
}

fn replica_ids(sharding: &dyn Sharding, shape: &Shape) -> Result<Vec<usize>> {
    let map = sharding.devices_indices_map(shape)?;
    sharding.device_set()?.map(|device| map.replica_id(device)).collect()
}
