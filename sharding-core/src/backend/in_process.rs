//! Collectives inside one process, written on `copy` and `launch`: what a backend needs that has nothing better.

mod exchange;
mod index;
mod keep;
mod recipe;
mod reduce;
mod tiles;

pub(crate) use exchange::pieces_of;
pub(crate) use recipe::clear as clear_recipes;

use super::{
    Backend, Collectives, Exchange, LocalArray, LocalArrays, LocalMeta, Move, Positions, Step, StepKind,
    Support,
};
use crate::tensor::device_at;
use crate::{DType, Device, DeviceMesh, Error, ErrorKind, Place, Result, Shape, TensorLayout};
use smallvec::SmallVec;

/// [`Collectives`] of a backend whose devices are all in this process.
///
/// Data that several devices hold alike is made once and shared where [`Backend::shares_memory`]; a shard that already
/// is what a device needs is passed on, and neighbouring views of one storage are joined to one view. Reductions follow
/// the tree that [`Collectives`] asks for, up to eight parts in one launch. Of parts that a device cannot read as they lie no more
/// land on it at a time than it brings itself.
pub struct InProcess<'a>(
    /// The backend whose `copy` and `launch` are used.
    pub &'a dyn Backend,
);

impl Collectives for InProcess<'_> {
    fn supports(&self, step: &Step) -> Support {
        let dtype = step.source.dtype();
        match step.kind {
            StepKind::AllReduce(op) | StepKind::ReduceScatter(op) => {
                let scalar = || LocalMeta::contiguous(dtype, Shape::default());
                let primitive = reduce::combination(op, dtype, 2);
                primitive.map_or(Support::Yes, |sum| self.0.supports(sum, &[scalar(), scalar()]))
            }
            StepKind::KeepOneCopy(op) => self.0.supports(&keep::identity(op, dtype), &[]),
            _ => Support::Yes,
        }
    }

    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        if step.kind == StepKind::Relabel {
            return Ok(shards);
        }
        let positions = self.0.positions(step.source.mesh())?;
        let call = Call { backend: self.0, op, step, positions: &positions, shards: &shards };
        call.check()?;
        match step.kind {
            StepKind::AllReduce(by) | StepKind::ReduceScatter(by) => {
                if let Some(made) = call.reduce_all(by) {
                    return made;
                }
                let none = LocalArrays::new();
                let without = Call { backend: self.0, op, step, positions: &positions, shards: &none };
                if let Some(combined) = call.combine_pieces(by) {
                    let combined = combined?;
                    // What nobody else holds is freed before the results are made.
                    drop(shards);
                    return without.join(&combined);
                }
                match call.reduce(by)? {
                    Some(made) => Ok(made),
                    None => {
                        let tiles = call.tiles()?;
                        drop(shards);
                        without.reduce_tiles(by, tiles)
                    }
                }
            }
            StepKind::KeepOneCopy(by) => call.keep_one_copy(by),
            _ => call.exchange(),
        }
    }

    fn exchange(
        &self,
        op: &'static str,
        exchange: &Exchange<'_>,
        shards: &[LocalArrays],
    ) -> Result<LocalArrays> {
        self.run_exchange(op, exchange, shards)
    }
}

/// For each position (ascending) of a layout, whether it can have the shard of an earlier one: those that differ
/// from it only on mesh axes where the layout is Replicated hold the same.
fn shares(backend: &dyn Backend, layout: &TensorLayout, positions: &[usize]) -> Result<SmallVec<[Share; 8]>> {
    let mesh = layout.mesh();
    let mut shares = SmallVec::with_capacity(positions.len());
    for position in positions {
        let first = first_replica(layout, *position);
        let mut share = Share::Own;
        if first != *position
            && let Some(i) = index_of(positions, first)
            && backend.shares_memory(device_at(mesh, first)?, device_at(mesh, *position)?)
        {
            share = Share::Of(i);
        }
        shares.push(share);
    }
    Ok(shares)
}

/// The shards in order: what was made, in order, and the shared ones.
fn spread(
    op: &'static str,
    shares: &[Share],
    made: impl IntoIterator<Item = LocalArray>,
) -> Result<LocalArrays> {
    let mut made = made.into_iter();
    let mut all = LocalArrays::with_capacity(shares.len());
    for share in shares {
        let next = match share {
            Share::Own => made.next(),
            Share::Of(i) => all.get(*i).cloned(),
        };
        match next {
            Some(array) => all.push(array),
            None => {
                return Err(Error::new(ErrorKind::Internal, "a collective made too few shards").with_op(op));
            }
        }
    }
    Ok(all)
}

/// One call of a collective.
struct Call<'a> {
    backend: &'a dyn Backend,
    op: &'static str,
    step: &'a Step,
    /// Of the source's mesh.
    positions: &'a Positions,
    shards: &'a LocalArrays,
}

/// The shards of a result: made for themselves, or those of an earlier device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Share {
    Own,
    Of(usize),
}

impl Call<'_> {
    /// What the caller promised; shapes are compared where a placement is Unknown, since nobody did so before.
    fn check(&self) -> Result<()> {
        let source = &self.step.source;
        if self.positions.len() != self.shards.len() {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("{} shards for {} positions", self.shards.len(), self.positions.len()),
            )
            .with_op(self.op));
        }
        if source.places().contains(&Place::Unknown) && self.step.kind != StepKind::Move {
            for (position, shard) in self.positions.iter().zip(self.shards) {
                let want = source.local_shape(*position);
                if *shard.shape() != want {
                    return Err(Error::new(
                        ErrorKind::Sharding,
                        format!(
                            "device {position} holds {} of an Unknown placement, not {want}: it cannot take part in {}",
                            shard.shape(),
                            self.step.kind.name()
                        ),
                    )
                    .with_op(self.op)
                    .with_operands([format!("x: {source}")])
                    .with_fix("x.rebind_mapping(&mapping, shape) to claim what the shards are"));
                }
            }
        }
        Ok(())
    }

    fn source_mesh(&self) -> &DeviceMesh {
        self.step.source.mesh()
    }

    /// The shard at a position of the source's mesh.
    fn shard(&self, position: usize) -> Result<&LocalArray> {
        shard_at(self.positions, self.shards, position).ok_or_else(|| {
            Error::new(
                ErrorKind::Process,
                format!("the shard of device {position} of {} is in another process", self.step.source),
            )
            .with_op(self.op)
            .with_fix("use a backend with collectives between processes")
        })
    }

    /// An array on `device`, or a copy of it there.
    fn on_device(&self, array: &LocalArray, device: Device) -> Result<LocalArray> {
        if self.backend.shares_memory(array.device(), device) {
            return Ok(array.clone());
        }
        let mut copy = self.backend.alloc(device, array.dtype(), array.shape())?;
        if array.elements() > 0 {
            let pieces = [(array.clone(), SmallVec::from_elem(0, array.shape().len()))];
            self.backend.copy(&mut [Move { op: self.op, pieces: &pieces, into: &mut copy }])?;
        }
        Ok(copy)
    }

    fn alloc(&self, device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
        self.backend.alloc(device, dtype, shape)
    }

    fn shares(&self, layout: &TensorLayout, positions: &[usize]) -> Result<SmallVec<[Share; 8]>> {
        shares(self.backend, layout, positions)
    }

    fn spread(&self, shares: &[Share], made: impl IntoIterator<Item = LocalArray>) -> Result<LocalArrays> {
        spread(self.op, shares, made)
    }
}

/// The least position that holds what `position` holds by the layout's Replicated mesh axes.
fn first_replica(layout: &TensorLayout, position: usize) -> usize {
    let mesh = layout.mesh();
    let mut first = position;
    for (axis, place) in layout.places().iter().enumerate() {
        if *place == Place::Replicated {
            first -= mesh.coord(position, axis) * mesh.stride(axis);
        }
    }
    first
}

/// Where a position stands in an ascending list; lists of all positions are the usual case.
fn index_of(positions: &[usize], position: usize) -> Option<usize> {
    match positions.get(position) {
        Some(found) if *found == position => Some(position),
        _ => positions.binary_search(&position).ok(),
    }
}

fn shard_at<'a>(positions: &[usize], shards: &'a [LocalArray], position: usize) -> Option<&'a LocalArray> {
    shards.get(index_of(positions, position)?)
}
