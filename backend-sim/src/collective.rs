//! Collectives: arrays of the target's sizes, and what was sent for them.

use crate::{Simulation, device, storage};
use sharding_core::backend::{Collectives, Exchange, LocalArrays, Step, StepKind, Support};
use sharding_core::plan::{CostModel, StepQuery, VolumeCost};
use sharding_core::{Error, ErrorKind, Region, Result};

/// The uses of one collective by one op over the same mesh axes with the same bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveUse {
    /// The op on whose behalf it ran.
    pub op: &'static str,
    /// Its kind.
    pub kind: StepKind,
    /// The names of the mesh axes.
    pub axes: Vec<String>,
    /// Bytes that a device sends in one use, by the volume price.
    pub bytes: f64,
    /// How often it ran.
    pub count: u64,
}

/// Whether two uses differ in their counts only.
pub(crate) fn same_collective(a: &CollectiveUse, b: &CollectiveUse) -> bool {
    (a.op, a.kind, &a.axes, a.bytes.to_bits()) == (b.op, b.kind, &b.axes, b.bytes.to_bits())
}

/// Collectives between devices that hold nothing.
pub(crate) struct SimCollectives;

impl Collectives for SimCollectives {
    fn supports(&self, _: &Step) -> Support {
        Support::Yes
    }

    /// While it runs, a device holds its piece of the source and of the target.
    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        if step.kind == StepKind::Relabel {
            return Ok(shards);
        }
        let (source, mesh) = (&step.source, step.target.mesh());
        let dtype = source.dtype();
        let mut made = LocalArrays::new();
        for position in device::positions(mesh)?.iter() {
            let device = mesh.device(*position).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("{mesh} has no device {position}")).with_op(op)
            })?;
            let shape = step.target.local_shape(*position);
            made.push(storage::alloc(device, dtype, &shape).map_err(|error| error.with_op(op))?);
        }
        Simulation::current().count_collective(CollectiveUse {
            op,
            kind: step.kind,
            axes: step.axis_names().map(str::to_owned).collect(),
            bytes: volume(step)?,
            count: 1,
        });
        Ok(made)
    }

    fn exchange(&self, op: &'static str, exchange: &Exchange<'_>, _: &[LocalArrays]) -> Result<LocalArrays> {
        let (result, mesh) = (exchange.result, exchange.result.mesh());
        let mut made = LocalArrays::new();
        let mut most = 0;
        for position in device::positions(mesh)?.iter() {
            let device = mesh.device(*position).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("{mesh} has no device {position}")).with_op(op)
            })?;
            most = most.max(exchange.received(*position)?);
            let shape = result.local_shape(*position);
            made.push(storage::alloc(device, result.dtype(), &shape).map_err(|error| error.with_op(op))?);
        }
        Simulation::current().count_collective(CollectiveUse {
            op,
            kind: StepKind::Permute,
            axes: exchange.axis_names().map(str::to_owned).collect(),
            bytes: most as f64,
            count: 1,
        });
        Ok(made)
    }
}

/// The volume price of a step, whatever model planned it.
fn volume(step: &Step) -> Result<f64> {
    let (source, mesh) = (&step.source, step.source.mesh());
    let outside = |(axis, place): &(usize, &sharding_core::Place)| {
        !step.axes.contains(axis) && place.tensor_axis().is_some()
    };
    let split: usize =
        source.places().iter().enumerate().filter(outside).map(|(axis, _)| mesh.size(axis)).product();
    Ok(VolumeCost.step(&StepQuery {
        kind: step.kind,
        mesh,
        axes: &step.axes,
        group: step.axes.iter().map(|axis| mesh.size(*axis)).product(),
        bytes: source.bytes() as f64 / split as f64,
        received: received(step)?,
    }))
}

/// The most bytes that one device of the target receives from others.
fn received(step: &Step) -> Result<f64> {
    let (source, target) = (&step.source, &step.target);
    let mut most = 0.0_f64;
    for position in device::positions(target.mesh())?.iter() {
        let region = target.region(*position);
        let stays = source.mesh().device(*position) == target.mesh().device(*position);
        let own = if stays { overlap(&region, &source.region(*position)) } else { 0.0 };
        most = most.max(overlap(&region, &region) - own);
    }
    Ok(most * source.dtype().size() as f64)
}

/// The number of elements in both regions.
fn overlap(a: &Region, b: &Region) -> f64 {
    let axis = |(a, b): (&sharding_core::placement::Ranges, &sharding_core::placement::Ranges)| -> f64 {
        let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
        pairs.map(|(x, y)| x.end.min(y.end).saturating_sub(x.start.max(y.start)) as f64).sum()
    };
    a.iter().zip(b).map(axis).product()
}
