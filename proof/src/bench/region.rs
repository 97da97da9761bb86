//! Manual regions: what starting one costs, and what a collective in it costs.

use super::Outcome;
use super::made::{part, tensor};
use super::measure::measure;
use sharding_core::manual::{ManualCx, shard_map};
use sharding_core::{AxisType, BackendKind, DeviceMesh, Error, ErrorKind, Place, Result, Tensor, spec};

/// Elements of each device's block: so few that waking threads is what costs.
const N: usize = 64;

/// A benchmark by its name, `region/WHAT/DEVICES`: a call whose function gives its block back (`call`), or sums it over the
/// devices (`psum`).
pub(super) fn region(name: &str) -> Result<Outcome> {
    let devices: usize = part(name, 2)?.parse().map_err(|_| {
        Error::new(ErrorKind::Argument, format!("'{name}' does not end in a number of devices"))
    })?;
    let mesh =
        DeviceMesh::simulated(BackendKind::CPU, [devices], ["x"])?.with_axis_types([AxisType::Manual])?;
    let x = tensor(&mesh, [devices * N], &[Place::Sharded(0)])?;
    let function: fn(&ManualCx, [Tensor; 1]) -> Result<[Tensor; 1]> = match part(name, 1)? {
        "call" => |_, [x]| Ok([x]),
        "psum" => |cx, [x]| Ok([cx.psum(&x, "x")?]),
        other => return Err(Error::new(ErrorKind::Argument, format!("no region does '{other}'"))),
    };
    let out = if part(name, 1)? == "psum" { spec![] } else { spec!["x"] };
    let region = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([out]).wrap(function)?;
    Ok(measure(name, || region.call([&x]))?.into())
}
