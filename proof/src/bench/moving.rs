//! Redistributions and movement ops over simulated devices of the CPU.

use super::Outcome;
use super::made::{extent, part, tensor};
use super::measure::measure;
use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Result};
use sharding_ops::{Index, concat, flip, slice};

/// A benchmark by its name, `redistribute/FROM-TO/SIZE`, as in `redistribute/S0-R/1MiB`.
pub(super) fn redistribute(name: &str) -> Result<Outcome> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
    let extent = extent(part(name, 2)?)?;
    let (source, target) = part(name, 1)?.split_once('-').ok_or_else(|| unknown(name))?;
    let x = tensor(&mesh, [extent, extent], &[place(source)?])?;
    let target = DeviceMapping::new(&mesh, [place(target)?])?;
    let measured = measure(name, || x.transfer_to(&target))?;
    Ok(measured.with_bytes((extent * extent * size_of::<f32>()) as u64).into())
}

/// A benchmark by its name, `move/OP/DEVICES`: a small tensor moved along its split axis inside an op.
pub(super) fn movement(name: &str) -> Result<Outcome> {
    let devices: usize = part(name, 2)?.parse().map_err(|_| unknown(name))?;
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [devices], ["sp"])?;
    let x = tensor(&mesh, [64, 16], &[Place::Sharded(0)])?;
    let measured = match part(name, 1)? {
        "concat" => {
            let xs = [x.clone(), x];
            measure(name, || concat(&xs, 0))
        }
        "slice" => measure(name, || slice(&x, &[Index::from(3..61)])),
        "flip" => measure(name, || flip(&x, &[0])),
        _ => Err(unknown(name)),
    };
    Ok(measured?.into())
}

fn place(name: &str) -> Result<Place> {
    match name {
        "R" => Ok(Place::Replicated),
        "P" => Ok(Place::PARTIAL),
        "S0" => Ok(Place::Sharded(0)),
        "S1" => Ok(Place::Sharded(1)),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::Argument, format!("'{name}' says nothing that is measured here"))
}
