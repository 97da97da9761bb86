//! Moves between meshes.

use super::Program;
use super::overlap::{common, total};
use super::program::{is_known, unknown};
use crate::backend::StepKind;
use crate::placement::sharded;
use crate::plan::CostModel;
use crate::{DeviceMapping, Error, ErrorKind, Place, Places, Result, TensorLayout};

/// Up to so many devices a move is priced exactly; beyond, data that a device already has counts as received.
const MAX_DEVICES: usize = 1 << 16;

/// Completes a program between meshes of different shapes: parts are reduced on the source's mesh, then every device
/// gets its ranges.
pub(super) fn between(program: &mut Program, cost: &dyn CostModel) -> Result<()> {
    let (source, target) = (program.source.clone(), program.target.clone());
    for layout in [&source, &target] {
        if let Some(axis) = layout.places().iter().position(|place| !is_known(*place)) {
            return Err(unknown(&source, &target, axis, layout.mesh()));
        }
    }
    let parts =
        |layout: &TensorLayout, axis: usize, place: Place| place.is_partial() && layout.mesh().size(axis) > 1;
    if let Some(axis) =
        target.places().iter().enumerate().position(|(axis, place)| parts(&target, axis, *place))
    {
        let from = if source.mesh().num_devices() == 1 { "one device" } else { "a mesh of another shape" };
        return Err(Error::new(
            ErrorKind::Sharding,
            format!("a value on {from} cannot be placed {} on {}", target.mapping(), target.mesh()),
        )
        .with_mesh_axis(target.mesh().axis_name(axis), target.mesh().size(axis))
        .with_operands([format!("x: {source}")])
        .with_fix("transfer it to Replicated on that mesh first, then to Partial there"));
    }
    let partial: Vec<usize> = (0..source.mesh().ndim())
        .filter(|axis| parts(&source, *axis, source.mapping().place(*axis)))
        .collect();
    if partial.is_empty() {
        program.push_move(&source, &target, received(&source, &target), cost);
        return Ok(());
    }
    // Combined in whole, or each device a piece along some tensor axis: half the bytes, and a move needs no whole.
    let options = (0..source.shape().len()).map(sharded).chain([Place::Replicated]).filter_map(|place| {
        let mut places = Places::from_slice(source.places());
        for axis in &partial {
            if let Some(slot) = places.get_mut(*axis) {
                *slot = place;
            }
        }
        let mapping = DeviceMapping::new(source.mesh(), places).ok()?;
        let reduced = source.with_mapping(mapping.with_memory_kind(source.mapping().memory_kind())).ok()?;
        Some(Program::search(&source, &reduced, cost).map(|mut steps| {
            steps.push_move(&reduced, &target, received(&reduced, &target), cost);
            steps.cost = steps.steps.iter().map(|step| step.cost).sum();
            steps
        }))
    });
    let mut best: Result<Program> =
        Err(Error::new(ErrorKind::Internal, format!("{} has no reduced form", source.mapping())));
    for option in options {
        let better = match (&best, &option) {
            (Ok(best), Ok(option)) => option.cost.total_cmp(&best.cost).is_lt(),
            (Err(_), _) => true,
            (Ok(_), Err(_)) => false,
        };
        if better {
            best = option;
        }
    }
    program.steps = best?.steps;
    debug_assert!(program.steps.last().is_some_and(|step| step.kind == StepKind::Move));
    Ok(())
}

/// The most bytes that one device of the target's mesh receives from others.
pub(super) fn received(source: &TensorLayout, target: &TensorLayout) -> f64 {
    let (from, to) = (source.mesh(), target.mesh());
    let positions = || 0..to.num_devices().min(MAX_DEVICES);
    let elements = |position: usize| target.local_shape(position).elements();
    // In balanced splits the first device has the most.
    let custom = target.places().iter().any(|place| matches!(place, Place::Custom(_)));
    let largest = if custom { positions().map(elements).max().unwrap_or(0) } else { elements(0) };
    let shard_to_shard = from.shape() == to.shape() && source.places() == target.places();
    let one = |position: usize| {
        let device = to.device(position);
        if shard_to_shard {
            // Nothing for a device that has the same position in both.
            return if from.device(position) == device { 0 } else { elements(position) };
        }
        let Some(own) = device.and_then(|device| from.position_of(device)) else { return elements(position) };
        let (old, new) = (source.region(own), target.region(position));
        let gets: usize = new.iter().map(|ranges| total(ranges)).product();
        gets - old.iter().zip(&new).map(|(old, new)| common(old, new)).product::<usize>()
    };
    let mut most = 0;
    for position in positions() {
        most = most.max(one(position));
        if most == largest {
            break;
        }
    }
    if to.num_devices() > MAX_DEVICES {
        most = largest;
    }
    most as f64 * target.dtype().size() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendKind, DType, Device, DeviceMesh};

    #[test]
    fn a_device_does_not_receive_what_it_has() {
        let check = |source: (&DeviceMesh, &[Place]), target: (&DeviceMesh, &[Place]), want: usize| {
            let lay = |(mesh, places): (&DeviceMesh, &[Place])| {
                TensorLayout::new(DType::Bool, [10, 4], DeviceMapping::new(mesh, places).unwrap()).unwrap()
            };
            assert_eq!(received(&lay(source), &lay(target)), want as f64, "{source:?} to {target:?}");
        };
        let mesh =
            |sizes: &[usize], names: &[&str]| DeviceMesh::simulated(BackendKind::CPU, sizes, names).unwrap();
        let (line, grid, other) = (mesh(&[4], &["x"]), mesh(&[2, 2], &["a", "b"]), mesh(&[4], &["y"]));
        let one = DeviceMesh::single(Device::cpu());
        let apart = DeviceMesh::single(Device::new(BackendKind::CUDA, 0));
        let (r, rows, columns) = (Place::Replicated, Place::Sharded(0), Place::Sharded(1));
        check((&one, &[r]), (&line, &[rows]), 3 * 4);
        check((&apart, &[r]), (&line, &[rows]), 3 * 4);
        check((&line, &[rows]), (&one, &[r]), 7 * 4);
        check((&line, &[rows]), (&apart, &[r]), 10 * 4);
        check((&line, &[rows]), (&other, &[rows]), 0);
        check((&line, &[rows]), (&grid, &[rows, rows]), 0);
        check((&line, &[rows]), (&grid, &[rows, r]), 3 * 4);
        check((&line, &[r]), (&grid, &[columns, rows]), 0);
    }
}
