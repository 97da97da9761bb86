//! Named mappings: what names resolve to.

use super::checked;
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::spelling::{mesh, places};
use sharding_core::{Device, DeviceMesh, NamedMapping, PartitionSpec, Result, Scope, SpecEntry};

/// One entry per tensor axis: null, a name, or a list of names.
fn spec(node: &Node<'_>) -> Parsed<PartitionSpec> {
    Ok(PartitionSpec::new(node.list_of(|entry| {
        Ok(match entry.value().as_str() {
            Some(name) => SpecEntry::from(name),
            None if entry.is_null() => SpecEntry::none(),
            None => SpecEntry::several(entry.list_of(Node::text)?),
        })
    })?))
}

fn unreduced<'a>(case: &Node<'a>) -> Parsed<Vec<&'a str>> {
    case.optional("unreduced").map_or(Ok(Vec::new()), |names| names.list_of(Node::text))
}

fn compare(want: &Node<'_>, got: NamedMapping) -> Parsed<Verdict> {
    let mapping = got.mapping();
    let wanted = match places(&want.field("placements")?)? {
        Ok(wanted) => wanted,
        Err(_) => return Ok(Verdict::Passed),
    };
    let mut verdict = Verdict::equal("placements", wanted.as_slice(), mapping.places());
    if let Some(replicated) = want.optional("fully_replicated") {
        let replicated = replicated.truth()?;
        verdict =
            verdict.and(|| Verdict::equal("fully replicated", replicated, mapping.is_fully_replicated()));
    }
    if let Some(names) = want.optional("axis_names") {
        let names = names.list_of(Node::text)?;
        let got: Vec<&str> = mapping.mesh().axis_names().collect();
        verdict = verdict.and(|| Verdict::equal("axis names", names, got));
    }
    Ok(verdict)
}

pub(super) fn named_mapping(case: &Node<'_>) -> Parsed<Verdict> {
    let (spec, unreduced) = (spec(&case.field("spec")?)?, unreduced(case)?);
    let got = mesh(&case.field("mesh")?)?
        .and_then(|mesh| NamedMapping::new(&mesh, spec))
        .and_then(|named| named.with_unreduced(unreduced));
    checked(&case.field("want")?, got, compare)
}

/// Without a mesh of its own: resolved on the default mesh in scope.
pub(super) fn named_mapping_default(case: &Node<'_>) -> Parsed<Verdict> {
    let (spec, unreduced) = (spec(&case.field("spec")?)?, unreduced(case)?);
    let default = match case.optional("default_mesh") {
        None => None,
        Some(mesh) if mesh.value().is_string() => Some(Ok(DeviceMesh::single(Device::cpu()))),
        Some(node) => Some(mesh(&node)?),
    };
    let scoped = || -> Result<NamedMapping> {
        let scope = (*Scope::current()).clone();
        let scope = match default {
            Some(mesh) => scope.with_mesh(mesh?),
            None => scope,
        };
        scope.enter(|| NamedMapping::scoped(spec)?.with_unreduced(unreduced))
    };
    checked(&case.field("want")?, scoped(), compare)
}
