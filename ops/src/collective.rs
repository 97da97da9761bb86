//! What the explicit collectives share: a checked change of placements on named mesh axes.

use crate::MeshAxes;
use sharding_core::{DeviceMapping, Error, ErrorKind, Place, Result, Tensor};

/// Changes the placement on `axes` to `to`, if each of them is placed as `from` says; `what` describes that for the error,
/// `fix` gives the line to write for an axis that is placed otherwise.
#[track_caller]
pub(crate) fn change(
    op: &'static str,
    x: &Tensor,
    axes: impl MeshAxes,
    (from, what): (impl Fn(Place) -> bool, &str),
    to: Place,
    fix: impl Fn(&str, Place) -> String,
) -> Result<Tensor> {
    let located = |error: Error| error.with_op(op).with_operands([format!("x: {}", x.layout())]);
    let mesh = x.mesh();
    let axes = axes.on(mesh).map_err(located)?;
    let mut places = x.mapping().places().to_vec();
    for axis in axes {
        let Some(place) = places.get_mut(axis) else { continue };
        if !from(*place) {
            let name = mesh.axis_name(axis);
            return Err(located(
                Error::new(ErrorKind::Sharding, format!("x is placed {place}, not {what}"))
                    .with_mesh_axis(name, mesh.size(axis))
                    .with_fix(fix(name, *place)),
            ));
        }
        *place = to;
    }
    let target =
        DeviceMapping::new(mesh, places).map_err(located)?.with_memory_kind(x.mapping().memory_kind());
    target.check(x.shape()).map_err(located)?;
    x.transfer_as(op, &target).map_err(located)
}

/// The line that makes a placement Replicated.
pub(crate) fn to_replicated(name: &str, place: Place) -> String {
    match (place, place.tensor_axis()) {
        (Place::Partial(_), _) => format!("all_reduce(&x, \"{name}\")"),
        (_, Some(axis)) => format!("all_gather(&x, \"{name}\", {axis})"),
        (Place::Unknown, _) => {
            format!("claim what the devices hold on '{name}' first: rebind_mapping(&x, &mapping, shape)")
        }
        _ => format!("nothing: x is the same on all devices along '{name}' already"),
    }
}
