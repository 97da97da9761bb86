//! Redistributions of data over two simulated devices of the CPU.

use super::Outcome;
use super::made::{extent, part, tensor};
use super::measure::measure;
use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Result};

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
    Error::new(ErrorKind::Argument, format!("'{name}' says no placement"))
}
