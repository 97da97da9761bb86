//! How the files spell meshes, placements, policies and dtypes.

use super::json::{Node, Parsed};
use super::room;
use sharding_core::placement::{ALL_TRANSITIONS, DEFAULT_TRANSITIONS, TransitionKind, TransitionSet};
use sharding_core::{
    BackendKind, DType, DeviceMesh, Error, ErrorKind, Mode, Place, Policy, ReduceOp, Result, Shape,
};

/// A value that our API has no spelling for: a negative size, say. Wherever it would be passed, that is a refusal.
pub(super) fn unspellable(what: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("there is no such value in our API: {what}"))
}

/// `{"shape": [2, 4], "axis_names": ["dp", "tp"]}` on simulated devices of the CPU.
pub(super) fn mesh(node: &Node<'_>) -> Parsed<Result<DeviceMesh>> {
    let names = node.field("axis_names")?.list_of(Node::text)?;
    mesh_of(&node.field("shape")?, &names)
}

/// A simulated mesh of a shape, with names of our own.
pub(super) fn nameless_mesh(shape: &Node<'_>) -> Parsed<Result<DeviceMesh>> {
    let names: Vec<String> = (0..shape.list()?.len()).map(|axis| format!("axis{axis}")).collect();
    mesh_of(shape, &names)
}

fn mesh_of<N: AsRef<str>>(shape: &Node<'_>, names: &[N]) -> Parsed<Result<DeviceMesh>> {
    Ok(match sizes(shape)? {
        Ok(sizes) => {
            room::devices(shape, &sizes)?;
            DeviceMesh::simulated(BackendKind::CPU, sizes, names)
        }
        Err(error) => Err(error),
    })
}

/// A list of sizes; negative ones and names of symbolic sizes have no spelling.
pub(super) fn sizes(node: &Node<'_>) -> Parsed<Result<Vec<usize>>> {
    let sizes = node.list_of(|size| match size.value().as_str() {
        Some(name) => Ok(Err(unspellable(name))),
        None => Ok(usize::try_from(size.integer()?).map_err(|_| unspellable(&size.value().to_string()))),
    })?;
    Ok(sizes.into_iter().collect())
}

/// A list of sizes as a shape.
pub(super) fn shape(node: &Node<'_>) -> Parsed<Result<Shape>> {
    Ok(sizes(node)?.and_then(Shape::new))
}

/// `R`, `S<d>`, `P`, `U`; a negative tensor axis has no spelling.
pub(super) fn place(node: &Node<'_>) -> Parsed<Result<Place>> {
    let code = node.text()?;
    Ok(Ok(match code {
        "R" => Place::Replicated,
        "P" => Place::PARTIAL,
        "U" => Place::Unknown,
        _ => {
            let axis = code.strip_prefix('S').and_then(|axis| axis.parse::<i64>().ok());
            let axis = axis.ok_or_else(|| node.expected("R, S<tensor axis>, P or U"))?;
            match u8::try_from(axis) {
                Ok(axis) => Place::Sharded(axis),
                Err(_) => return Ok(Err(unspellable(code))),
            }
        }
    }))
}

/// A list of placements.
pub(super) fn places(node: &Node<'_>) -> Parsed<Result<Vec<Place>>> {
    Ok(node.list_of(place)?.into_iter().collect())
}

/// A placement as the files spell it.
pub(super) fn code(place: Place) -> String {
    match place {
        Place::Replicated => "R".to_owned(),
        Place::Sharded(axis) => format!("S{axis}"),
        Place::Partial(ReduceOp::Sum) => "P".to_owned(),
        Place::Unknown => "U".to_owned(),
        other => other.to_string(),
    }
}

/// Placements as the files spell them.
pub(super) fn codes(places: &[Place]) -> String {
    format!("[{}]", places.iter().map(|place| code(*place)).collect::<Vec<_>>().join(", "))
}

/// `{"allowed": "DEFAULT" | "ALL" | ["R>S", ..], "mode": "silent" | "warn" | "raise"}`.
pub(super) fn policy(node: &Node<'_>) -> Parsed<Policy> {
    let allowed = node.field("allowed")?;
    let allowed = match allowed.value().as_str() {
        Some("DEFAULT") => DEFAULT_TRANSITIONS,
        Some("ALL") => ALL_TRANSITIONS,
        _ => allowed
            .list()?
            .iter()
            .try_fold(TransitionSet::NONE, |set, kind| Ok(set.with(transition(kind)?)))?,
    };
    let mode = node.field("mode")?;
    let mode = match mode.text()? {
        "silent" => Mode::Silent,
        "warn" => Mode::Warn,
        "raise" => Mode::Raise,
        _ => return Err(mode.expected("silent, warn or raise")),
    };
    Ok(Policy { allowed, mode })
}

fn transition(node: &Node<'_>) -> Parsed<TransitionKind> {
    let text = node.text()?;
    let known = TransitionKind::ALL.into_iter().find(|kind| kind.name() == text);
    known.ok_or_else(|| node.expected("a transition such as R>S"))
}

/// A dtype by name; `None` for those that we do not have.
pub(super) fn dtype(node: &Node<'_>) -> Parsed<Option<DType>> {
    Ok(node.text()?.parse().ok())
}

/// A dtype by its name in NumPy and PyTorch, such as `float32`; else the reason to skip the case.
pub(super) fn array_dtype(node: &Node<'_>) -> Parsed<std::result::Result<DType, String>> {
    let name = node.text()?;
    let kinds = [("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("bool", "bool")];
    let ours = kinds.iter().find_map(|(theirs, ours)| Some(format!("{ours}{}", name.strip_prefix(theirs)?)));
    let dtype = ours.and_then(|name| name.parse().ok());
    Ok(dtype.ok_or_else(|| format!("dtypes that we do not have: {name}")))
}
