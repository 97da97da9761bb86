//! Running a program.

use super::Program;
use crate::backend::{
    Backend, Collectives, InProcess, LocalArray, LocalArrays, Step, StepKind, Support, backend_of, pieces_of,
};
use crate::tensor::{device_at, host_bytes, resolve};
use crate::trace::{Event, Seen};
use crate::{Error, ErrorKind, Place, Region, Result, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

impl Program {
    /// Runs the steps on the shards that this process addresses, in the order of its positions.
    ///
    /// All of it is a `tracing` span `reshard`, each step in it another, see [`Step::span`].
    ///
    /// # Errors
    /// [`ErrorKind::Backend`] for a step that a backend does not support, else what the backends say.
    pub fn run(&self, op: &'static str, mut shards: LocalArrays) -> Result<LocalArrays> {
        let Some(first) = self.steps.first() else { return Ok(shards) };
        let mut backend = backend_of(device_at(first.source.mesh(), 0)?.kind)?;
        let _span = tracing::debug_span!(
            "reshard",
            op,
            from = %self.source,
            to = %self.target.mapping(),
            bytes = self.source.bytes(),
        )
        .entered();
        let _seen = Seen::new(|| Event::Reshard { op, source: &self.source, target: &self.target });
        for step in &self.steps {
            let _span = step.span(op).entered();
            let _seen = Seen::new(|| Event::Step { op, step });
            let moved = match step.kind {
                StepKind::Relabel => continue,
                // Local steps are the same on every backend.
                StepKind::LocalSlice | StepKind::KeepOneCopy(_) => {
                    InProcess(&**backend).run(op, step, shards)
                }
                StepKind::Move => {
                    let (next, positions) = resolve(step.target.mesh())?;
                    let moved = if Arc::ptr_eq(backend, next) {
                        collective(&**backend, op, step, shards)
                    } else {
                        through_host(&**backend, &**next, step, &positions, &shards)
                    };
                    backend = next;
                    moved
                }
                _ => collective(&**backend, op, step, shards),
            };
            match moved {
                Ok(moved) => shards = moved,
                Err(error) => return Err(error.with_op(op)),
            }
        }
        Ok(shards)
    }
}

fn collective(
    backend: &dyn Backend,
    op: &'static str,
    step: &Step,
    shards: LocalArrays,
) -> Result<LocalArrays> {
    let collectives = backend.collectives();
    if let Support::No(reason) = collectives.supports(step) {
        return Err(Error::new(
            ErrorKind::Backend,
            format!("the backend {} cannot run {step}: {reason}", backend.kind()),
        )
        .with_operands([format!("x: {}", step.source)]));
    }
    collectives.run(op, step, shards)
}

/// A move between backends: the ranges of every target shard go through the host.
fn through_host(
    from: &dyn Backend,
    to: &dyn Backend,
    step: &Step,
    positions: &[usize],
    shards: &LocalArrays,
) -> Result<LocalArrays> {
    let (source, target) = (&step.source, &step.target);
    let held = from.positions(source.mesh())?;
    let shard = |owner: usize| {
        let found = held.iter().position(|position| *position == owner).and_then(|i| shards.get(i));
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::Process,
                format!("the shard of device {owner} of {source} is in another process"),
            )
            .with_fix("move it between meshes of one backend first")
        })
    };
    let mut made = LocalArrays::with_capacity(positions.len());
    let mut regions: Vec<Region> = Vec::new();
    for position in positions {
        let device = device_at(target.mesh(), *position)?;
        // Replicas share one buffer where memory is shared.
        let region = target.region(*position);
        let known = !target.places().iter().any(|place| *place == Place::Unknown || place.is_partial());
        let twin = regions.iter().position(|other| known && *other == region).and_then(|i| made.get(i));
        let twin = twin.filter(|array: &&LocalArray| to.shares_memory(array.device(), device)).cloned();
        regions.push(region);
        if let Some(twin) = twin {
            made.push(twin);
            continue;
        }
        let (shape, pieces) = pieces_of(step.kind, source, target, &step.axes, *position, shard)?;
        let mut bytes = host_bytes(shape.elements().saturating_mul(source.dtype().size()))?;
        for (view, start) in &pieces {
            paste(from, view, start, &shape, &mut bytes)?;
        }
        let mut array = to.alloc(device, source.dtype(), &shape)?;
        to.write(&bytes, &mut array)?;
        made.push(array);
    }
    Ok(made)
}

/// Reads a view and writes it into row-major bytes of a larger array at an index.
fn paste(
    from: &dyn Backend,
    view: &LocalArray,
    start: &[usize],
    shape: &Shape,
    into: &mut [u8],
) -> Result<()> {
    let size = view.dtype().size();
    let mut bytes = host_bytes(view.bytes())?;
    from.read(view, &mut bytes)?;
    let strides = shape.strides();
    let row = view.shape().last().copied().unwrap_or(1) * size;
    if row == 0 {
        return Ok(());
    }
    let mut at: SmallVec<[usize; 4]> = SmallVec::from_elem(0, view.shape().len());
    for chunk in bytes.chunks_exact(row) {
        let flat =
            at.iter().zip(start).zip(&strides).map(|((i, start), stride)| (i + start) * *stride as usize);
        let first = flat.sum::<usize>() * size;
        if let Some(slot) = into.get_mut(first..first + row) {
            slot.copy_from_slice(chunk);
        }
        // The next row: all axes but the last, in row-major order.
        for (i, extent) in at.iter_mut().zip(view.shape().iter()).rev().skip(1) {
            *i += 1;
            if *i < *extent {
                break;
            }
            *i = 0;
        }
    }
    Ok(())
}
