//! What makes sizes, names and devices a mesh, with the words of the errors.

use super::MAX_MESH_AXES;
use crate::{BackendKind, Device, Error, ErrorKind, Result};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

pub(super) fn checked_size(shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Err(Error::new(
            ErrorKind::Mesh,
            format!("a device mesh needs sizes of at least 1, got the shape {shape:?}"),
        )
        .with_fix("leave an axis of size 1 instead of 0"));
    }
    if shape.len() > MAX_MESH_AXES {
        return Err(Error::new(
            ErrorKind::Mesh,
            format!(
                "the mesh shape {shape:?} has {} axes; at most {MAX_MESH_AXES} are supported",
                shape.len()
            ),
        )
        .with_fix("merge mesh axes: the product of their sizes as one axis"));
    }
    shape
        .iter()
        .try_fold(1_usize, |n, size| n.checked_mul(*size))
        .filter(|n| *n <= isize::MAX as usize)
        .ok_or_else(|| {
            Error::new(ErrorKind::Overflow, format!("the mesh shape {shape:?} has too many devices"))
                .with_fix("use smaller mesh sizes")
        })
}

pub(super) fn checked_names<N: AsRef<str>>(names: &[N], shape: &[usize]) -> Result<SmallVec<[Box<str>; 4]>> {
    if names.len() != shape.len() {
        return Err(Error::new(
            ErrorKind::Mesh,
            format!("{} axis names for a mesh of {} axes {shape:?}", names.len(), shape.len()),
        )
        .with_fix("give one name per mesh axis"));
    }
    for (i, name) in names.iter().enumerate() {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::new(ErrorKind::Mesh, format!("mesh axis {i} has an empty name"))
                .with_fix("name every mesh axis, as in [\"dp\", \"tp\"]"));
        }
        if names.iter().take(i).any(|earlier| earlier.as_ref() == name) {
            return Err(Error::new(ErrorKind::Mesh, format!("two mesh axes are named '{name}'"))
                .with_fix("give every mesh axis its own name"));
        }
    }
    Ok(names.iter().map(|name| name.as_ref().into()).collect())
}

/// Devices are distinct, of one kind, and shared by slots everywhere or nowhere.
pub(super) fn check_devices(devices: &[Device]) -> Result<()> {
    let mut seen = FxHashSet::default();
    if let Some(twice) = devices.iter().find(|device| !seen.insert(**device)) {
        return Err(Error::new(ErrorKind::Mesh, format!("the device {twice} appears twice in the mesh"))
            .with_fix("give each place its own slot: device.with_slot(i), or DeviceMesh::simulated(kind, shape, names)"));
    }
    check_kinds(devices)?;
    check_sharing(devices)
}

/// One backend drives a mesh: it would leave out the devices of another kind.
fn check_kinds(devices: &[Device]) -> Result<()> {
    let Some(first) = devices.first() else { return Ok(()) };
    match devices.iter().find(|device| device.kind != first.kind) {
        None => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::Mesh,
            format!(
                "a mesh has devices of one kind, got {first} of {} and {other} of {}",
                first.kind, other.kind
            ),
        )
        .with_fix("make a mesh per kind, and x.transfer_to(&mapping) between them")),
    }
}

/// Within a process and backend all or none of the ordinals carry several slots.
fn check_sharing(devices: &[Device]) -> Result<()> {
    let mut counts: Vec<((u32, BackendKind, u32), usize)> = Vec::new();
    let mut sorted: Vec<_> = devices.iter().map(|d| (d.process, d.kind, d.ordinal)).collect();
    sorted.sort_unstable();
    for key in sorted {
        match counts.last_mut() {
            Some((last, n)) if *last == key => *n += 1,
            _ => counts.push((key, 1)),
        }
    }
    for pair in counts.windows(2) {
        if let [((p, kind, a), n), ((q, other, b), m)] = pair
            && (p, kind) == (q, other)
            && (*n == 1) != (*m == 1)
        {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!(
                    "in process {p} {kind}:{a} carries {n} slots and {kind}:{b} carries {m}: a mesh is simulated on all of its ordinals or on none"
                ),
            )
            .with_fix("give every ordinal one device, or several slots each"));
        }
    }
    Ok(())
}
