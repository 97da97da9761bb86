//! How the suite spells devices, meshes, specs and shardings.

use crate::golden::json::{Node, Parsed};
use crate::golden::spelling::{shape as spelled_shape, sizes};
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
        None => (0..shape.iter().product::<usize>() as u32).map(|id| Device::cpu().with_slot(id)).collect(),
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

/// One entry per tensor axis: null, a name, a list of names, or `{"unconstrained": true}`. What our types cannot say (a
/// list in a list) is left to the reader of the text form.
pub(super) fn spec(node: &Node<'_>) -> Parsed<Result<PartitionSpec>> {
    if node.list()?.iter().any(is_nested) {
        return Ok(text_form(node)?.parse());
    }
    Ok(Ok(PartitionSpec::new(node.list_of(|entry| match entry.value().as_array() {
        Some(_) => Ok(SpecEntry::several(entry.list_of(name)?)),
        None if entry.is_null() => Ok(SpecEntry::none()),
        None if entry.optional("unconstrained").is_some() => Ok(SpecEntry::unconstrained()),
        None => Ok(SpecEntry::from(name(entry)?.as_str())),
    })?)))
}

fn is_nested(entry: &Node<'_>) -> bool {
    entry.value().as_array().is_some_and(|items| items.iter().any(|item| item.is_array() || item.is_null()))
}

/// A name. Theirs may be any value; ours are texts, so a number stands for its digits.
fn name(node: &Node<'_>) -> Parsed<String> {
    match node.value() {
        serde_json::Value::String(name) => Ok(name.clone()),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        _ => Err(node.expected("a name")),
    }
}

/// The entries as JAX would print them, nested as they are.
fn text_form(node: &Node<'_>) -> Parsed<String> {
    let item = |node: &Node<'_>| -> Parsed<String> {
        if node.value().is_array() {
            let items = node.list_of(|item| match item.value().is_array() {
                true => Ok(format!("({},)", item.list_of(name)?.join(", "))),
                false if item.is_null() => Ok("None".to_owned()),
                false => Ok(format!("{:?}", name(item)?)),
            })?;
            return Ok(format!("({},)", items.join(", ")));
        }
        Ok(match node.is_null() {
            true => "None".to_owned(),
            false if node.optional("unconstrained").is_some() => "UNCONSTRAINED".to_owned(),
            false => format!("{:?}", name(node)?),
        })
    };
    Ok(format!("P({})", node.list_of(item)?.join(", ")))
}

/// The spec of a case with its sets `unreduced` and `reduced`.
pub(super) fn whole_spec(case: &Node<'_>) -> Parsed<Result<PartitionSpec>> {
    let names = |field: &str| case.optional(field).map_or(Ok(Vec::new()), |names| names.list_of(Node::text));
    let (unreduced, reduced) = (names("unreduced")?, names("reduced")?);
    let spec = spec(&case.field("spec")?)?;
    Ok(spec.and_then(|spec| spec.with_unreduced(unreduced)).and_then(|spec| spec.with_reduced(reduced)))
}

/// `{"mesh": .., "spec": .., "unreduced": .., "memory_kind": .., "abstract": true}`; all but mesh and spec may be missing.
pub(super) fn named(node: &Node<'_>) -> Parsed<Result<NamedSharding>> {
    let spec = match whole_spec(node)? {
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

/// A sharding by name, or `{"device_id": 0}`.
pub(super) fn sharding(node: &Node<'_>) -> Parsed<Result<Box<dyn Sharding>>> {
    match node.optional("device_id") {
        None => Ok(named(node)?.map(|sharding| Box::new(sharding) as Box<dyn Sharding>)),
        Some(id) => {
            let (device, kind) = (device(&id)?, memory_kind(node)?);
            let single = kind.unwrap_or(Ok(MemoryKind::Device));
            let single = single.and_then(|kind| SingleDeviceSharding::in_memory(device, kind));
            Ok(single.map(|sharding| Box::new(sharding) as Box<dyn Sharding>))
        }
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
