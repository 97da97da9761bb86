//! Measuring the collectives of a mesh.

use super::fit::{self, Sample};
use super::{AlphaBetaCost, Link};
use crate::backend::{Backend, LocalArrays, Move, Positions, StepKind};
use crate::redistribute::Program;
use crate::tensor::{device_at, host_bytes, resolve};
use crate::{DType, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, ReduceOp, Result, TensorLayout};
use smallvec::SmallVec;
use std::time::Instant;

/// Bytes of the larger side on one device.
const BYTES: [usize; 4] = [1 << 12, 1 << 16, 1 << 19, 1 << 22];
/// All devices together hold no more than so many bytes of one tensor.
const MOST: usize = 1 << 28;
/// Each is done so often; the fastest counts, as what else runs on the machine only adds.
const TIMES: usize = 5;

/// A cost model from measuring this mesh's own collectives: all_gather, reduce_scatter, all_reduce and all_to_all over each
/// mesh axis by itself, at several sizes (4 KiB to 4 MiB on a device), and copies in a device's memory. Latency and time
/// per byte of each axis are the least squares of relative errors; collectives over an axis run in all its groups at
/// once, so what groups take from each other is in the figures. An axis of size 1 costs nothing.
///
/// In a program of several processes all call it together; as each sees its own times, let one
/// [write](AlphaBetaCost::write) the model and all [read](AlphaBetaCost::read) it.
///
/// ```no_run
/// use sharding_core::plan::{AlphaBetaCost, calibrate};
/// use sharding_core::{BackendKind, DeviceMesh, Scope};
/// use std::{path::Path, sync::Arc};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 4], ["dp", "tp"])?;
/// let path = Path::new("mesh.toml");
/// calibrate(&mesh)?.write(path, &mesh)?;
/// // In the next run:
/// let cost = AlphaBetaCost::read(path, &mesh)?;
/// let _guard = (*Scope::current()).clone().with_cost(Arc::new(cost)).guard();
/// # Ok::<(), sharding_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Backend`] for devices without data, whose time means nothing; else what the backend says.
pub fn calibrate(mesh: &DeviceMesh) -> Result<AlphaBetaCost> {
    let located = |error: Error| error.with_op("calibrate").with_operands([format!("mesh: {mesh}")]);
    measure(mesh).map_err(located)
}

fn measure(mesh: &DeviceMesh) -> Result<AlphaBetaCost> {
    let (backend, positions) = resolve(mesh)?;
    let bench = Bench { mesh, backend: backend.as_ref(), positions };
    bench.refuse_without_data()?;
    let memory = bench.memory()?;
    let free = Link { latency: 0.0, seconds_per_byte: 0.0 };
    let mut model = AlphaBetaCost { rest: free, axes: Vec::new(), memory };
    for axis in 0..mesh.ndim() {
        let link = match mesh.size(axis) {
            1 => Some(free),
            _ => fit::link(&bench.samples(axis)?, memory),
        };
        let Some(link) = link else {
            return Err(Error::new(ErrorKind::Internal, "no collective took any time")
                .with_mesh_axis(mesh.axis_name(axis), mesh.size(axis)));
        };
        model.rest = model.rest.slower(link);
        model.axes.push((mesh.axis_name(axis).to_owned(), link));
    }
    Ok(model)
}

/// The elements that each device of a group brings, at several sizes: together as many as the sizes say, and on all devices
/// of the process no more than is allowed for one tensor. One at least, whatever the mesh.
fn parts(group: usize, devices: usize) -> impl Iterator<Item = usize> {
    let most = MOST / devices.max(1);
    let part = move |bytes: usize| (bytes / 4 / group).max(1);
    let sizes = BYTES.into_iter().filter(move |bytes| *bytes <= most);
    // Where even the smallest is too large: as much as may be.
    let least = BYTES.first().is_none_or(|bytes| *bytes > most).then_some(most);
    let mut last = 0;
    sizes.chain(least).map(part).filter(move |part| std::mem::replace(&mut last, *part) != *part)
}

struct Bench<'a> {
    mesh: &'a DeviceMesh,
    backend: &'a dyn Backend,
    positions: Positions,
}

impl Bench<'_> {
    fn refuse_without_data(&self) -> Result<()> {
        let layout = self.layout(&[1], |_| Place::Replicated)?;
        let shards = self.shards(&layout)?;
        let Some(first) = shards.first() else { return Ok(()) };
        self.backend.read(first, &mut host_bytes(first.bytes())?).map_err(|error| {
            Error::new(ErrorKind::Backend, "a mesh whose devices hold no data takes no time to measure")
                .with_source(error)
                .with_fix("model it instead: AlphaBetaCost::new(fabric::NVLINK_4.link)?")
        })
    }

    fn layout(&self, shape: &[usize], place: impl Fn(usize) -> Place) -> Result<TensorLayout> {
        let places: SmallVec<[Place; 4]> = (0..self.mesh.ndim()).map(place).collect();
        TensorLayout::new(DType::F32, shape, DeviceMapping::new(self.mesh, places)?)
    }

    /// Ones, so that nothing is special about the numbers.
    fn shards(&self, layout: &TensorLayout) -> Result<LocalArrays> {
        let mut made = LocalArrays::new();
        for position in self.positions.iter() {
            let device = device_at(self.mesh, *position)?;
            let mut shard = self.backend.alloc(device, layout.dtype(), &layout.local_shape(*position))?;
            let mut bytes = host_bytes(shard.bytes())?;
            bytes.chunks_exact_mut(4).for_each(|one| one.copy_from_slice(&1.0_f32.to_ne_bytes()));
            self.backend.write(&bytes, &mut shard)?;
            made.push(shard);
        }
        self.wait()?;
        Ok(made)
    }

    fn wait(&self) -> Result<()> {
        self.positions
            .iter()
            .try_for_each(|position| self.backend.synchronize(device_at(self.mesh, *position)?))
    }

    /// Seconds of the fastest of several runs, after one that warms up.
    fn time<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..=TIMES {
            let start = Instant::now();
            let made = run()?;
            self.wait()?;
            best = best.min(start.elapsed().as_secs_f64());
            drop(made);
        }
        Ok(best)
    }

    /// Seconds per byte that a device reads or writes: a copy of the largest size does both to each byte.
    fn memory(&self) -> Result<f64> {
        let Some(position) = self.positions.first() else { return Ok(0.0) };
        let elements = BYTES.last().map_or(1, |bytes| bytes / 4);
        let layout = self.layout(&[elements], |_| Place::Replicated)?;
        let device = device_at(self.mesh, *position)?;
        let shape = layout.local_shape(*position);
        let mut source = self.backend.alloc(device, DType::F32, &shape)?;
        self.backend.write(&host_bytes(source.bytes())?, &mut source)?;
        let mut target = self.backend.alloc(device, DType::F32, &shape)?;
        self.wait()?;
        let seconds = self.time(|| {
            let pieces = [(source.clone(), SmallVec::from_elem(0, 1))];
            self.backend.copy(&mut [Move { op: "calibrate", pieces: &pieces, into: &mut target }])
        })?;
        Ok(seconds / (2.0 * source.bytes() as f64))
    }

    fn samples(&self, axis: usize) -> Result<Vec<Sample>> {
        let group = self.mesh.size(axis);
        let mut samples = Vec::new();
        for part in parts(group, self.positions.len()) {
            let (partial, sum) = (Place::PARTIAL, ReduceOp::Sum);
            let (rows, columns, whole) = (Place::Sharded(0), Place::Sharded(1), Place::Replicated);
            let kinds = [
                (StepKind::AllGather, rows, whole, part),
                (StepKind::ReduceScatter(sum), partial, rows, part),
                (StepKind::AllReduce(sum), partial, whole, part),
                // What one device holds is a part of this tensor: one larger by the group.
                (StepKind::AllToAll, rows, columns, group * part),
            ];
            for (kind, from, to, extent) in kinds {
                let shape = [group, extent];
                let on = |place: Place| self.layout(&shape, |own| if own == axis { place } else { whole });
                let program = Program::search(&on(from)?, &on(to)?, &crate::plan::VolumeCost)?;
                let shards = self.shards(&program.source)?;
                let seconds = self.time(|| program.run("calibrate", shards.clone()))?;
                samples.push(Sample { kind, bytes: (4 * group * part) as f64, group, seconds });
            }
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_stays_within_its_bound() {
        for group in [2, 3, 16, 1024, 4096, 1 << 16] {
            for others in [1, 2, 64] {
                let (devices, mut any) = (group * others, false);
                for part in parts(group, devices) {
                    let bytes = 4 * group * part * devices;
                    // One element from each device is the least.
                    assert!(part == 1 || bytes <= MOST, "{group} x {others}: {bytes} bytes");
                    any = true;
                }
                assert!(any, "{group} x {others}");
            }
        }
        assert_eq!(parts(2, 2).collect::<Vec<_>>(), BYTES.map(|bytes| bytes / 8));
    }
}
