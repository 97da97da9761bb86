//! Collectives: arrays of the target's sizes, and what was sent for them.

use crate::{Simulation, device, storage};
use sharding_core::backend::{Collectives, Exchange, LocalArrays, Step, StepKind, Support};
use sharding_core::plan::VolumeCost;
use sharding_core::trace::Runs;
use sharding_core::{Error, ErrorKind, Result, TensorLayout, caller};
use std::fmt;
use std::panic::Location;

/// The line of a program: a file and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(pub &'static Location<'static>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sharding_core::trace::place(self.0))
    }
}

/// The uses of one collective by one op over the same mesh axes with the same bytes, called from one line.
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
    /// Seconds of one use; `None` where no model in seconds is in force. See [`Simulation`].
    pub seconds: Option<f64>,
    /// The line of the program that caused it; `None` where a backend was called without an op.
    pub at: Option<Line>,
    /// How often it ran on one device, of those on which it ran most: groups of a region run it at the same time.
    pub count: u64,
    /// How often it ran on each device.
    pub(crate) runs: Runs,
}

impl CollectiveUse {
    /// Seconds of all uses; `None` where no model in seconds is in force.
    pub fn total_seconds(&self) -> Option<f64> {
        Some(self.seconds? * self.count as f64)
    }
    /// Bytes that a device sends in all uses.
    pub fn total_bytes(&self) -> f64 {
        self.bytes * self.count as f64
    }
}

/// Whether two uses differ in their counts only.
pub(crate) fn same_collective(a: &CollectiveUse, b: &CollectiveUse) -> bool {
    let of =
        |one: &CollectiveUse| (one.op, one.kind, one.bytes.to_bits(), one.seconds.map(f64::to_bits), one.at);
    of(a) == of(b) && a.axes == b.axes
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
        let simulation = Simulation::current();
        note_uneven(&simulation, [source, &step.target]);
        simulation.count_collective(CollectiveUse {
            op,
            kind: step.kind,
            axes: step.axis_names().map(str::to_owned).collect(),
            // By the volume price, whatever model planned it.
            bytes: step.price(&VolumeCost),
            seconds: simulation.seconds_by(|cost| step.price(cost)).map_err(|error| error.with_op(op))?,
            at: caller().map(|caller| Line(caller.at)),
            count: 1,
            runs: Runs::once(mesh),
        });
        Ok(made)
    }

    fn exchange(&self, op: &'static str, exchange: &Exchange<'_>, _: &[LocalArrays]) -> Result<LocalArrays> {
        let (result, mesh) = (exchange.result, exchange.result.mesh());
        let mut made = LocalArrays::new();
        for position in device::positions(mesh)?.iter() {
            let device = mesh.device(*position).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("{mesh} has no device {position}")).with_op(op)
            })?;
            let shape = result.local_shape(*position);
            made.push(storage::alloc(device, result.dtype(), &shape).map_err(|error| error.with_op(op))?);
        }
        let most = exchange.most_received()?;
        let simulation = Simulation::current();
        note_uneven(&simulation, exchange.operands.iter().chain([result]));
        simulation.count_collective(CollectiveUse {
            op,
            kind: StepKind::Permute,
            axes: exchange.axis_names().map(str::to_owned).collect(),
            bytes: most as f64,
            seconds: simulation
                .seconds_by(|cost| exchange.price(cost, most))
                .map_err(|error| error.with_op(op))?,
            at: caller().map(|caller| Line(caller.at)),
            count: 1,
            runs: Runs::once(mesh),
        });
        Ok(made)
    }
}

/// Says so where the corners of a large mesh do not hold the most of one of these.
fn note_uneven<'a>(simulation: &Simulation, layouts: impl IntoIterator<Item = &'a TensorLayout>) {
    let beyond = |layout: &TensorLayout| {
        layout.mesh().num_devices() > device::ALL_POSITIONS && !layout.first_holds_most()
    };
    if layouts.into_iter().any(beyond) {
        simulation.count_uneven();
    }
}
