//! Specs as the suite writes them.

use crate::golden::json::{Node, Parsed};
use sharding_core::{DeviceMapping, DeviceMesh, NamedMapping, PartitionSpec, Result, SpecEntry};

/// What `spec` and `unreduced` of an object say, or a bare list of entries; an error of ours where there is no such mapping.
pub(super) fn mapping(node: &Node<'_>, mesh: &DeviceMesh) -> Parsed<Result<DeviceMapping>> {
    let entries = if node.value().is_array() { node.clone() } else { node.field("spec")? };
    let spec = PartitionSpec::new(entries.list_of(entry)?);
    let unreduced = match node.optional("unreduced") {
        Some(names) => names.list_of(Node::text)?,
        None => Vec::new(),
    };
    Ok(spec
        .to_mapping(mesh)
        .and_then(|_| Ok(NamedMapping::new(mesh, spec)?.with_unreduced(unreduced)?.mapping().clone())))
}

/// `null`, a name, or a list of names.
fn entry(node: &Node<'_>) -> Parsed<SpecEntry> {
    Ok(if node.is_null() {
        SpecEntry::none()
    } else if node.value().is_array() {
        SpecEntry::several(node.list_of(Node::text)?)
    } else {
        SpecEntry::from(node.text()?)
    })
}
