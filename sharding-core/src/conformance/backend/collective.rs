//! Collectives: every kind of step, uneven and empty ranges, several mesh axes, the fixed tree.

use super::{Bench, Checked, OP, caught, signed, text, typed};
use crate::backend::{LocalArray, LocalArrays, Step, StepKind, Support};
use crate::conformance::host::{HostArray, Random, parts};
use crate::conformance::naive;
use crate::placement::{Ragged, sharded};
use crate::{DType, Device, DeviceMapping, DeviceMesh, Place, ReduceOp, Result, Scalar, Shape, TensorLayout};
use std::panic::{AssertUnwindSafe, catch_unwind};

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod];

/// A step to run: its kind, the mesh axes, and placements before and after.
type Case = (StepKind, Vec<usize>, Vec<Place>, Vec<Place>);

pub(super) fn collectives(bench: &mut Bench<'_>) {
    let mesh = |shape: &[usize]| {
        let names: Vec<&str> = ["x", "y", "z"].into_iter().take(shape.len()).collect();
        DeviceMesh::simulated(bench.backend.kind(), shape, names)
    };
    let meshes = [mesh(&[2]), mesh(&[3]), mesh(&[1]), mesh(&[2, 3]), mesh(&[3, 2])];
    for mesh in meshes.into_iter().flatten() {
        for shape in [Shape::from([7, 6]), [1, 4].into(), [0, 3].into(), [2, 2, 5].into()] {
            let cases = if mesh.ndim() == 1 { one_axis(mesh.size(0), &shape) } else { two_axes() };
            for (kind, axes, from, to) in cases {
                // Every dtype on one mesh; the two that are most unlike on all.
                let every = mesh.shape() == [3] && *shape == [7, 6];
                for dtype in DType::ALL {
                    if !(every && dtype != DType::Bool || matches!(dtype, DType::F32 | DType::I64)) {
                        continue;
                    }
                    let layout = |places: &[Place]| {
                        TensorLayout::new(dtype, &shape, DeviceMapping::new(&mesh, places)?)
                    };
                    let (Ok(source), Ok(target)) = (layout(&from), layout(&to)) else { continue };
                    let step = Step { kind, axes: axes[..].into(), source, target, cost: 0.0 };
                    one(bench, step);
                }
            }
        }
        moves(bench, &mesh);
    }
    bools(bench);
}

fn one_axis(ways: usize, shape: &Shape) -> Vec<Case> {
    let (r, s0, s1) = (Place::Replicated, sharded(0), sharded(1));
    let mut sizes = vec![0; ways];
    if let Some(last) = sizes.last_mut() {
        *last = shape.extent(0);
    }
    let ragged = Ragged::place(0, sizes);
    let mut steps = vec![
        (StepKind::LocalSlice, r, s0),
        (StepKind::LocalSlice, r, s1),
        (StepKind::LocalSlice, r, ragged),
        (StepKind::AllGather, s0, r),
        (StepKind::AllGather, s1, r),
        (StepKind::AllGather, ragged, r),
        (StepKind::AllToAll, s0, s1),
        (StepKind::AllToAll, s1, s0),
        (StepKind::AllToAll, ragged, s1),
        (StepKind::Permute, s0, ragged),
        (StepKind::Permute, ragged, s0),
    ];
    for op in OPS {
        let p = Place::Partial(op);
        steps.extend([
            (StepKind::AllReduce(op), p, r),
            (StepKind::ReduceScatter(op), p, s0),
            (StepKind::ReduceScatter(op), p, s1),
            (StepKind::ReduceScatter(op), p, ragged),
            (StepKind::KeepOneCopy(op), r, p),
            (StepKind::KeepOneCopy(op), s1, p),
        ]);
    }
    if ways == 1 {
        steps.push((StepKind::Relabel, s0, r));
    }
    steps.into_iter().map(|(kind, from, to)| (kind, vec![0], vec![from], vec![to])).collect()
}

fn two_axes() -> Vec<Case> {
    let (r, s0, s1, p) = (Place::Replicated, sharded(0), sharded(1), Place::PARTIAL);
    let (reduce, scatter) = (StepKind::AllReduce(ReduceOp::Sum), StepKind::ReduceScatter(ReduceOp::Sum));
    let keep = StepKind::KeepOneCopy(ReduceOp::Sum);
    vec![
        (reduce, vec![0, 1], vec![p, p], vec![r, r]),
        (reduce, vec![0], vec![p, s1], vec![r, s1]),
        (reduce, vec![1], vec![p, p], vec![p, r]),
        (scatter, vec![0, 1], vec![p, p], vec![s0, s0]),
        (scatter, vec![0, 1], vec![p, p], vec![s1, s0]),
        (scatter, vec![1], vec![s1, p], vec![s1, s0]),
        (scatter, vec![1], vec![s0, p], vec![s0, s0]),
        (StepKind::AllGather, vec![0, 1], vec![s0, s0], vec![r, r]),
        (StepKind::AllGather, vec![0, 1], vec![s1, s0], vec![r, r]),
        (StepKind::AllGather, vec![1], vec![s1, s0], vec![s1, r]),
        (StepKind::AllGather, vec![0], vec![s1, p], vec![r, p]),
        (StepKind::AllToAll, vec![0], vec![s0, r], vec![s1, r]),
        (StepKind::AllToAll, vec![0, 1], vec![s0, s1], vec![s1, s0]),
        (StepKind::AllToAll, vec![0, 1], vec![s0, s0], vec![s1, s1]),
        (StepKind::AllToAll, vec![0], vec![s0, p], vec![s1, p]),
        (StepKind::Permute, vec![0, 1], vec![s0, r], vec![r, s0]),
        (StepKind::LocalSlice, vec![0, 1], vec![r, r], vec![s0, s1]),
        (StepKind::LocalSlice, vec![1], vec![s1, r], vec![s1, s0]),
        (keep, vec![0, 1], vec![r, r], vec![p, p]),
        (keep, vec![1], vec![s1, r], vec![s1, p]),
        (keep, vec![0], vec![r, p], vec![p, p]),
    ]
}

/// The legal steps only: each needs its new ranges inside what the group, or for local steps the device, holds.
fn legal(step: &Step, shards: &[HostArray]) -> Option<Vec<HostArray>> {
    naive::step(step, shards).ok()
}

/// Parts that show any other order of summation: 1e8 + 1 - 1e8 is 0 or 1 in f32.
fn cancelling(layout: &TensorLayout) -> Vec<HostArray> {
    let mut random = Random::new(11);
    let mut terms = |shape: &Shape| -> HostArray {
        let value = |_| {
            let value = [1e8, -1e8, 1.0, 3.0, -1.0, 0.1].get(random.below(6)).copied().unwrap_or(0.0);
            Scalar::Float(f64::from(value as f32))
        };
        HostArray {
            dtype: DType::F32,
            shape: shape.clone(),
            values: (0..shape.elements()).map(value).collect(),
        }
    };
    let all: Vec<HostArray> = (0..ways(layout)).map(|_| terms(layout.shape())).collect();
    spread(layout, &all)
}

fn ways(layout: &TensorLayout) -> usize {
    let partial = layout.places().iter().zip(layout.mesh().shape()).filter(|(place, _)| place.is_partial());
    partial.map(|(_, size)| *size).product()
}

/// The shards of a layout, from one term per device along its Partial axes.
fn spread(layout: &TensorLayout, terms: &[HostArray]) -> Vec<HostArray> {
    let mesh = layout.mesh();
    let part = |position: usize| {
        let partial = layout.places().iter().enumerate().filter(|(_, place)| place.is_partial());
        partial.fold(0, |part, (axis, _)| part * mesh.size(axis) + mesh.coord(position, axis))
    };
    (0..mesh.num_devices())
        .filter_map(|position| Some(terms.get(part(position))?.cut(&layout.region(position))))
        .collect()
}

fn one(bench: &mut Bench<'_>, step: Step) {
    let layout = &step.source;
    let op = layout.places().iter().find_map(|place| place.reduce_op());
    let whole = signed(layout.dtype(), layout.shape(), 5);
    let shards = match op {
        None => spread(layout, &[whole]),
        Some(ReduceOp::Sum) if layout.dtype() == DType::F32 => cancelling(layout),
        Some(op) => spread(layout, &parts(&whole, op, ways(layout), &mut Random::new(6))),
    };
    let Some(want) = legal(&step, &shards) else { return };
    run(bench, &step, &shards, &want);
}

/// Between meshes: to other devices in another order, to one device, and from one device.
fn moves(bench: &mut Bench<'_>, mesh: &DeviceMesh) {
    let reversed: Vec<Device> = {
        let mut devices: Vec<Device> = mesh.devices().collect();
        devices.reverse();
        devices
    };
    let single = DeviceMesh::single(Device::new(bench.backend.kind(), 0).with_slot(40));
    let Ok(line) = DeviceMesh::new(&reversed, [reversed.len()], ["w"]) else { return };
    let whole = |mesh: &DeviceMesh| DeviceMapping::replicated(mesh);
    let split = |mesh: &DeviceMesh| {
        let places: Vec<Place> =
            (0..mesh.ndim()).map(|axis| if axis == 0 { sharded(0) } else { Place::Replicated }).collect();
        DeviceMapping::new(mesh, places)
    };
    let (Ok(here), Ok(there)) = (split(mesh), split(&line)) else { return };
    let pairs = [
        (here.clone(), there.clone()),
        (there, here.clone()),
        (here.clone(), whole(&single)),
        (whole(&single), here),
        (whole(mesh), whole(&single)),
        (whole(&single), whole(mesh)),
    ];
    for (from, to) in pairs {
        let axes = (0..from.mesh().ndim()).collect();
        let layout = |mapping| TensorLayout::new(DType::F32, [7, 2], mapping);
        let (Ok(source), Ok(target)) = (layout(from), layout(to)) else { continue };
        one(bench, Step { kind: StepKind::Move, axes, source, target, cost: 0.0 });
    }
}

fn bools(bench: &mut Bench<'_>) {
    let Ok(mesh) = DeviceMesh::simulated(bench.backend.kind(), [3], ["x"]) else { return };
    let layout = |place: Place| TensorLayout::new(DType::Bool, [7], DeviceMapping::new(&mesh, [place])?);
    let steps = [
        (StepKind::AllGather, sharded(0), Place::Replicated),
        (StepKind::LocalSlice, Place::Replicated, sharded(0)),
        (StepKind::AllReduce(ReduceOp::Max), Place::Partial(ReduceOp::Max), Place::Replicated),
        (StepKind::AllReduce(ReduceOp::Min), Place::Partial(ReduceOp::Min), Place::Replicated),
    ];
    for (kind, from, to) in steps {
        if let (Ok(source), Ok(target)) = (layout(from), layout(to)) {
            one(bench, Step { kind, axes: [0][..].into(), source, target, cost: 0.0 });
        }
    }
}

fn run(bench: &mut Bench<'_>, step: &Step, shards: &[HostArray], want: &[HostArray]) {
    let name = format!("collectives/{step} {}{}", step.source.dtype(), step.source.shape());
    if let Support::No(reason) = bench.backend.collectives().supports(step) {
        bench.skip(&format!("collectives/{}", step.kind.name()), &[step.source.dtype()], &reason);
        bench.check(name, |bench| {
            let run = || bench.backend.collectives().run(OP, step, put(bench, step, shards)?);
            match catch_unwind(AssertUnwindSafe(run)) {
                Err(_) => Err(format!("it says No ({reason}), and panics")),
                Ok(Ok(_)) => Err(format!("it says No ({reason}), and runs")),
                Ok(Err(error)) => typed(&error),
            }
        });
        return;
    }
    bench.check(name, |bench| {
        // Whole positions are a process's; a backend across processes needs them all here.
        for mesh in [step.source.mesh(), step.target.mesh()] {
            let positions = bench.backend.positions(mesh).map_err(text)?;
            if !positions.iter().copied().eq(0..mesh.num_devices()) {
                return Err(format!("positions of {mesh} are {positions:?}"));
            }
        }
        let arrays = put(bench, step, shards).map_err(text)?;
        let kept = arrays.clone();
        let made = caught(|| bench.backend.collectives().run(OP, step, arrays))?;
        agree(bench, step, &made, want)?;
        for (array, shard) in kept.iter().zip(shards) {
            bench.holds(array, shard, true).map_err(|message| format!("a source changed: {message}"))?;
        }
        // Once more with nobody else holding the sources: their storages may be used again.
        drop(kept);
        let arrays = put(bench, step, shards).map_err(text)?;
        let made = caught(|| bench.backend.collectives().run(OP, step, arrays))?;
        agree(bench, step, &made, want)
    });
}

fn put(bench: &Bench<'_>, step: &Step, shards: &[HostArray]) -> Result<LocalArrays> {
    shards
        .iter()
        .zip(step.source.mesh().devices())
        .map(|(shard, device)| shard.put(bench.backend, device))
        .collect()
}

fn agree(bench: &Bench<'_>, step: &Step, made: &[LocalArray], want: &[HostArray]) -> Checked {
    if made.len() != want.len() {
        return Err(format!("{} shards for {} devices", made.len(), want.len()));
    }
    for (position, ((array, want), device)) in
        made.iter().zip(want).zip(step.target.mesh().devices()).enumerate()
    {
        // The identity of a float sum may be either zero.
        let exact = !matches!(step.kind, StepKind::KeepOneCopy(_));
        bench.holds(array, want, exact).map_err(|message| format!("device {position}: {message}"))?;
        if !bench.backend.shares_memory(array.device(), device) {
            return Err(format!("the shard of device {position} lies on {}", array.device()));
        }
    }
    Ok(())
}
