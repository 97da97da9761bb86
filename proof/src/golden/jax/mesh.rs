//! Meshes: with the caller's devices, with the first of all devices, and without devices.

use super::refusal;
use super::spelling::{axis_type, devices, slots};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::spelling::{sizes, unspellable};
use serde_json::{Value, json};
use sharding_core::{AbstractMesh, AxisType, DeviceMesh, ErrorKind, Result, make_mesh};
use std::collections::BTreeSet;

/// The devices that there were when the cases were made.
const DEVICES: usize = 8;

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    let (constructor, args) = (case.field("constructor")?, case.field("args")?);
    let got = match constructor.text()? {
        "Mesh" => concrete(&args, &args.field("device_shape")?, AxisType::Auto)?.map(|mesh| told(&mesh)),
        "make_mesh" => {
            concrete(&args, &args.field("axis_sizes")?, AxisType::Explicit)?.map(|mesh| told(&mesh))
        }
        "AbstractMesh" => without_devices(&args)?.map(|mesh| told_abstract(&mesh)),
        _ => return Err(constructor.expected("Mesh, make_mesh or AbstractMesh")),
    };
    if let Some(error) = case.optional("error") {
        return refusal::compare(&error, got);
    }
    let want = case.field("want")?;
    Ok(match got {
        Ok(got) => {
            let fields = want.value().as_object().into_iter().flatten();
            fields.fold(Verdict::Passed, |verdict, (field, wanted)| {
                verdict.and(|| {
                    Verdict::equal(field, wanted.clone(), got.get(field).cloned().unwrap_or_default())
                })
            })
        }
        Err(error) => match on_purpose(&want) {
            Some(what) if error.kind() == ErrorKind::Mesh => {
                Verdict::Skipped(format!("a mesh that we refuse on purpose: {what}"))
            }
            _ => Verdict::failed("a mesh", error.to_string()),
        },
    })
}

/// What is wrong with a mesh that they accept.
fn on_purpose(want: &Node<'_>) -> Option<&'static str> {
    let list = |field: &str| want.value().get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let repeats =
        |items: &[Value]| items.iter().map(ToString::to_string).collect::<BTreeSet<_>>().len() < items.len();
    let names = list("axis_names");
    [
        (list("axis_sizes").contains(&json!(0)), "an axis of size 0"),
        (names.contains(&json!("")), "an empty name"),
        (repeats(&names), "a name twice"),
        (repeats(&list("device_ids")), "a device twice"),
    ]
    .into_iter()
    .find_map(|(is, what)| is.then_some(what))
}

/// Names, or one name; a missing name has no spelling.
fn names(args: &Node<'_>) -> Parsed<Result<Vec<String>>> {
    let node = args.field("axis_names")?;
    let name =
        |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| unspellable(&value.to_string()));
    Ok(match node.value() {
        Value::Array(names) => names.iter().map(name).collect(),
        one => name(one).map(|name| vec![name]),
    })
}

/// Types, or one type; `missing` on every axis where there are none.
fn types(args: &Node<'_>, axes: usize, missing: AxisType) -> Parsed<Vec<AxisType>> {
    match args.optional("axis_types") {
        None => Ok(vec![missing; axes]),
        Some(one) if one.value().is_string() => Ok(vec![axis_type(&one)?]),
        Some(types) => types.list_of(axis_type),
    }
}

fn concrete(args: &Node<'_>, shape: &Node<'_>, missing: AxisType) -> Parsed<Result<DeviceMesh>> {
    let (names, shape) = match (names(args)?, sizes(shape)?) {
        (Ok(names), Ok(shape)) => (names, shape),
        (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
    };
    let types = types(args, names.len(), missing)?;
    let devices = match args.optional("device_ids") {
        Some(ids) => devices(&ids)?,
        None => {
            // Theirs takes as many of all devices as there is room for; ours is told which.
            let size = shape.iter().fold(1_usize, |size, axis| size.saturating_mul(*axis));
            slots(size.min(DEVICES))
        }
    };
    Ok(make_mesh(&devices, shape, names, types))
}

fn without_devices(args: &Node<'_>) -> Parsed<Result<AbstractMesh>> {
    let (names, shape) = match (names(args)?, sizes(&args.field("axis_sizes")?)?) {
        (Ok(names), Ok(shape)) => (names, shape),
        (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
    };
    let types = types(args, names.len(), AxisType::Auto)?;
    Ok(AbstractMesh::new(shape, names).and_then(|mesh| mesh.with_axis_types(types)))
}

fn told(mesh: &DeviceMesh) -> Value {
    let mut told = told_abstract(&mesh.to_abstract());
    told["device_ids"] = mesh.devices().map(|device| device.slot).collect();
    told
}

fn told_abstract(mesh: &AbstractMesh) -> Value {
    json!({
        "axis_sizes": mesh.shape(),
        "axis_names": mesh.axis_names().collect::<Vec<_>>(),
        "axis_types": mesh.axis_types().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "size": mesh.num_devices(),
        "empty": false,
    })
}
