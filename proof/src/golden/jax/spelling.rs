//! How the suite spells devices, meshes, specs and shardings.

use crate::golden::json::{Node, Parsed};
use crate::golden::room;
use crate::golden::spelling::{shape as spelled_shape, sizes, unspellable};
use serde_json::Value;
use sharding_core::{
    AbstractMesh, AxisType, Device, DeviceMesh, MemoryKind, NamedSharding, PartitionSpec, Result, Shape,
    Sharding, SingleDeviceSharding, SpecEntry,
};

/// A device by its id: a slot of the CPU.
pub(super) fn device(node: &Node<'_>) -> Parsed<Device> {
    let id = u32::try_from(node.size()?).map_err(|_| node.expected("the id of a device"))?;
    Ok(Device::cpu().with_slot(id))
}

/// A list of devices by their ids.
pub(super) fn devices(node: &Node<'_>) -> Parsed<Vec<Device>> {
    node.list_of(device)
}

/// The first slots of the CPU.
pub(super) fn slots(number: usize) -> Vec<Device> {
    (0..).take(number).map(|id| Device::cpu().with_slot(id)).collect()
}

/// `Auto`, `Explicit` or `Manual`.
pub(super) fn axis_type(node: &Node<'_>) -> Parsed<AxisType> {
    match node.text()? {
        "Auto" => Ok(AxisType::Auto),
        "Explicit" => Ok(AxisType::Explicit),
        "Manual" => Ok(AxisType::Manual),
        _ => Err(node.expected("Auto, Explicit or Manual")),
    }
}

/// The axis types of a mesh, if it says them.
fn axis_types(mesh: &Node<'_>) -> Parsed<Option<Vec<AxisType>>> {
    mesh.optional("axis_types").map(|types| types.list_of(axis_type)).transpose()
}

/// `{"shape": [4, 2], "axis_names": ["x", "y"]}`; `device_ids` where they are not 0, 1, 2, .., and `axis_types` where
/// they are not Auto.
pub(super) fn mesh(node: &Node<'_>) -> Parsed<Result<DeviceMesh>> {
    let names = node.field("axis_names")?.list_of(Node::text)?;
    let shape = match sizes(&node.field("shape")?)? {
        Ok(shape) => shape,
        Err(error) => return Ok(Err(error)),
    };
    let devices = match node.optional("device_ids") {
        Some(ids) => devices(&ids)?,
        None => slots(room::devices(&node.field("shape")?, &shape)?),
    };
    let mesh = DeviceMesh::new(&devices, shape, names);
    Ok(match axis_types(node)? {
        Some(types) => mesh.and_then(|mesh| mesh.with_axis_types(types)),
        None => mesh,
    })
}

fn abstract_mesh(node: &Node<'_>) -> Parsed<Result<AbstractMesh>> {
    let names = node.field("axis_names")?.list_of(Node::text)?;
    let mesh = sizes(&node.field("shape")?)?.and_then(|shape| AbstractMesh::new(shape, names));
    Ok(match axis_types(node)? {
        Some(types) => mesh.and_then(|mesh| mesh.with_axis_types(types)),
        None => mesh,
    })
}

/// The global shape of a case.
pub(super) fn global_shape(case: &Node<'_>) -> Parsed<Result<Shape>> {
    spelled_shape(&case.field("global_shape")?)
}

/// One entry per tensor axis: null, a name, a list of names, or `{"unconstrained": true}`. What is no list of names is left
/// to the reader of the text form.
pub(super) fn spec(node: &Node<'_>) -> Parsed<Result<PartitionSpec>> {
    let Some(entries) = node.value().as_array() else {
        return Ok(Err(unspellable(&node.value().to_string())));
    };
    if entries.iter().any(is_no_list_of_names) {
        return Ok(format!("P({})", texts(entries)).parse());
    }
    Ok(Ok(PartitionSpec::new(entries.iter().map(|entry| match entry {
        Value::Array(names) => SpecEntry::several(names.iter().filter_map(name)),
        entry if is_unconstrained(entry) => SpecEntry::unconstrained(),
        // An empty name is their way to write none; for us it is a name that no mesh has.
        entry => match name(entry).filter(|name| !name.is_empty()) {
            Some(name) => SpecEntry::from(name.as_str()),
            None => SpecEntry::none(),
        },
    }))))
}

/// Whether an entry is a list of something else than names; our types cannot say that.
pub(super) fn is_no_list_of_names(entry: &Value) -> bool {
    // A list of one none is none.
    let names = |items: &Vec<Value>| {
        items.len() == 1 && items.iter().all(Value::is_null) || items.iter().all(is_name)
    };
    entry.as_array().is_some_and(|items| !names(items))
}

fn is_name(item: &Value) -> bool {
    !item.is_array() && !item.is_null() && !is_unconstrained(item)
}
fn is_unconstrained(entry: &Value) -> bool {
    entry.get("unconstrained").is_some()
}

/// A name. Theirs may be any value; ours are texts, so another value stands for its text.
fn name(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(name) => Some(name.clone()),
        other => Some(other.to_string()),
    }
}

/// Entries as JAX would print them, nested as they are.
fn texts(entries: &[Value]) -> String {
    let text = |entry: &Value| match entry {
        Value::Array(items) => format!("({},)", texts(items)),
        entry if is_unconstrained(entry) => "UNCONSTRAINED".to_owned(),
        entry => name(entry).map_or_else(|| "None".to_owned(), |name| format!("{name:?}")),
    };
    entries.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The spec of a case, its entries in that field, with its sets `unreduced` and `reduced`. What is no set of names cannot be
/// said.
pub(super) fn whole_spec(case: &Node<'_>, entries: &str) -> Parsed<Result<PartitionSpec>> {
    let names = |field: &str| -> Result<Vec<String>> {
        let Some(set) = case.optional(field) else { return Ok(Vec::new()) };
        let names =
            set.value().as_array().map(|names| names.iter().map(|name| name.as_str().map(str::to_owned)));
        names.and_then(Iterator::collect).ok_or_else(|| unspellable(&set.value().to_string()))
    };
    let spec = match case.optional(entries) {
        Some(node) => spec(&node)?,
        None => Err(unspellable("no spec")),
    };
    Ok(spec.and_then(|spec| spec.with_unreduced(names("unreduced")?)?.with_reduced(names("reduced")?)))
}

/// `{"mesh": .., "spec": .., "unreduced": .., "memory_kind": .., "abstract": true}`; all but mesh and spec may be missing.
pub(super) fn named(node: &Node<'_>) -> Parsed<Result<NamedSharding>> {
    let spec = match whole_spec(node, "spec")? {
        Ok(spec) => spec,
        Err(error) => return Ok(Err(error)),
    };
    let mesh_node = node.field("mesh")?;
    let is_abstract = node.optional("abstract").map_or(Ok(false), |is| is.truth())?;
    let sharding = match is_abstract {
        true => abstract_mesh(&mesh_node)?.and_then(|mesh| NamedSharding::on_abstract(&mesh, spec)),
        false => mesh(&mesh_node)?.and_then(|mesh| NamedSharding::new(&mesh, spec)),
    };
    Ok(match memory_kind(node)? {
        Some(kind) => kind.and_then(|kind| sharding?.in_memory(kind)),
        None => sharding,
    })
}

fn memory_kind(node: &Node<'_>) -> Parsed<Option<Result<MemoryKind>>> {
    node.optional("memory_kind").map(|kind| Ok(kind.text()?.parse())).transpose()
}

/// `{"device_id": 0}`, and its memory.
pub(super) fn single(node: &Node<'_>) -> Parsed<Result<SingleDeviceSharding>> {
    let (device, kind) = (device(&node.field("device_id")?)?, memory_kind(node)?);
    let kind = kind.unwrap_or(Ok(MemoryKind::Device));
    Ok(kind.and_then(|kind| SingleDeviceSharding::in_memory(device, kind)))
}

/// A sharding by name, or of one device.
pub(super) fn sharding(node: &Node<'_>) -> Parsed<Result<Box<dyn Sharding>>> {
    match node.has("device_id") {
        false => Ok(named(node)?.map(|sharding| Box::new(sharding) as Box<dyn Sharding>)),
        true => Ok(single(node)?.map(|sharding| Box::new(sharding) as Box<dyn Sharding>)),
    }
}

/// An entry as the suite spells it.
pub(super) fn entry_json(entry: &SpecEntry) -> serde_json::Value {
    let names: Vec<&str> = entry.names().collect();
    match names.as_slice() {
        _ if entry.is_unconstrained() => serde_json::json!({"unconstrained": true}),
        [] => serde_json::Value::Null,
        [name] => serde_json::json!(name),
        names => serde_json::json!(names),
    }
}
