//! Steps that combine parts which a device cannot read as they lie: tile by tile, so that few parts of others land at a time.

use super::exchange::{Pieces, common_pieces};
use super::{Call, Share};
use crate::backend::{LocalArray, LocalArrays, StepKind};
use crate::tensor::device_at;
use crate::{Device, ReduceOp, Result, Shape};
use smallvec::{SmallVec, smallvec};

/// What is combined for every shard that is made.
pub(super) struct Tiles {
    shares: SmallVec<[Share; 8]>,
    /// Parts of a group.
    n: usize,
    jobs: Vec<Job>,
}

/// One shard of the result.
struct Job {
    device: Device,
    shape: Shape,
    /// So many elements of other devices may land beside its own at a time: as many as it brings.
    room: usize,
    /// What it consists of, disjoint; taken from the end.
    tiles: Vec<Tile>,
}

/// A box of a result: what every member of the group has of it, and the index at which it begins.
struct Tile {
    parts: SmallVec<[LocalArray; 8]>,
    at: SmallVec<[usize; 4]>,
}

impl Tile {
    fn shape(&self) -> Shape {
        self.parts.first().map_or_else(Shape::default, |part| part.shape().clone())
    }

    /// Appends it, in halves of its longest axis until one has no more elements than so many.
    fn cut(self, most: usize, tiles: &mut Vec<Self>) {
        let shape = self.shape();
        let longest = shape.iter().copied().enumerate().max_by_key(|(_, extent)| *extent);
        let Some((axis, extent)) = longest.filter(|(_, extent)| shape.elements() > most && *extent > 1)
        else {
            return tiles.push(self);
        };
        let half = extent / 2;
        let part = |start: usize, len: usize| {
            let parts = self.parts.iter().map(|part| part.slice(axis, start, len)).collect();
            let mut at = self.at.clone();
            if let Some(slot) = at.get_mut(axis) {
                *slot += start;
            }
            Self { parts, at }
        };
        part(0, half).cut(most, tiles);
        part(half, extent - half).cut(most, tiles);
    }
}

impl Call<'_> {
    /// The parts of an all_reduce or a reduce_scatter, for [`Call::reduce_tiles`]. A piece of several ranges is several tiles,
    /// each of which is a view of every part; where views do not do, as memory is not shared, tiles are so small that all parts
    /// of one land in the room that there is.
    pub(super) fn tiles(&self) -> Result<Tiles> {
        let step = self.step;
        let (source, target) = (&step.source, &step.target);
        let mesh = source.mesh();
        let shares = self.shares(target, self.positions)?;
        let scatters = matches!(step.kind, StepKind::ReduceScatter(_));
        let n = step.axes.iter().map(|axis| mesh.size(*axis)).product();
        let mut jobs = Vec::new();
        for (position, share) in self.positions.iter().zip(&shares) {
            if *share != Share::Own {
                continue;
            }
            let device = device_at(mesh, *position)?;
            let regions = scatters.then(|| (source.region(*position), target.region(*position)));
            let mut boxes: Vec<Tile> = Vec::new();
            let mut far = 0;
            for member in mesh.group(*position, &step.axes) {
                let part = self.shard(member)?;
                far += usize::from(!self.backend.shares_memory(part.device(), device));
                let pieces: Pieces = match &regions {
                    Some((old, new)) => common_pieces(part, old, new),
                    None => smallvec![(part.clone(), SmallVec::from_elem(0, part.shape().len()))],
                };
                // All members hold the same ranges, so that their pieces are alike.
                for (i, (view, at)) in pieces.into_iter().enumerate() {
                    match boxes.get_mut(i) {
                        Some(tile) => tile.parts.push(view),
                        None => boxes.push(Tile { parts: smallvec![view], at }),
                    }
                }
            }
            let room = self.shard(*position)?.elements();
            let mut tiles = Vec::new();
            for tile in boxes {
                tile.cut(room.checked_div(far).map_or(usize::MAX, |most| most.max(1)), &mut tiles);
            }
            tiles.reverse();
            jobs.push(Job { device, shape: target.local_shape(*position), room, tiles });
        }
        Ok(Tiles { shares, n, jobs })
    }

    /// Combines them: as many tiles at a time as there is room for, and at the end the tiles of each shard are put together.
    pub(super) fn reduce_tiles(&self, by: ReduceOp, tiles: Tiles) -> Result<LocalArrays> {
        let Tiles { shares, n, mut jobs } = tiles;
        let mut done: Vec<Pieces> = jobs.iter().map(|_| Pieces::new()).collect();
        loop {
            let mut now: SmallVec<[(Device, Shape); 2]> = SmallVec::new();
            let mut whose: SmallVec<[(usize, SmallVec<[usize; 4]>); 2]> = SmallVec::new();
            let mut inputs: Vec<LocalArray> = Vec::new();
            for (i, job) in jobs.iter_mut().enumerate() {
                let mut landed = 0;
                while let Some(tile) = job.tiles.pop() {
                    let far = |part: &&LocalArray| !self.backend.shares_memory(part.device(), job.device);
                    let lands: usize = tile.parts.iter().filter(far).map(LocalArray::elements).sum();
                    if landed > 0 && landed + lands > job.room {
                        job.tiles.push(tile);
                        break;
                    }
                    landed += lands;
                    now.push((job.device, tile.shape()));
                    for part in tile.parts {
                        inputs.push(self.on_device(&part, job.device)?);
                    }
                    whose.push((i, tile.at));
                }
            }
            if now.is_empty() {
                break;
            }
            let made = self.combine_all(by, &now, inputs, n)?;
            for ((i, at), array) in whose.into_iter().zip(made) {
                if let Some(done) = done.get_mut(i) {
                    done.push((array, at));
                }
            }
        }
        let mut made: SmallVec<[LocalArray; 2]> = SmallVec::with_capacity(jobs.len());
        let mut copies: SmallVec<[(usize, Pieces); 2]> = SmallVec::new();
        for (job, pieces) in jobs.iter().zip(done) {
            if let [(whole, _)] = &pieces[..]
                && *whole.shape() == job.shape
            {
                made.push(whole.clone());
                continue;
            }
            if !pieces.is_empty() {
                copies.push((made.len(), pieces));
            }
            made.push(self.alloc(job.device, self.step.source.dtype(), &job.shape)?);
        }
        self.paste(&mut made, &copies)?;
        self.spread(&shares, made)
    }
}
