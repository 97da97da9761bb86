//! Steps that combine parts: one fixed binary tree over the positions of a group.

use super::exchange::Pieces;
use super::{Call, Share};
use crate::backend::{BinaryOp, Expr, LocalArray, LocalArrays, Move, Primitive, StepKind, Work};
use crate::split::balanced;
use crate::tensor::device_at;
use crate::{DType, Device, Error, ErrorKind, ReduceOp, Result, Shape};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// So many parts are combined in one launch; the tree is the same, memory is read once.
const FAN: usize = 8;

/// How two elements of a dtype combine; the sum and the maximum of truth values is "or".
fn binary(op: ReduceOp, dtype: DType) -> BinaryOp {
    match (op, dtype == DType::Bool) {
        (ReduceOp::Sum | ReduceOp::Max, true) => BinaryOp::Or,
        (ReduceOp::Prod | ReduceOp::Min, true) => BinaryOp::And,
        (ReduceOp::Sum, false) => BinaryOp::Add,
        (ReduceOp::Prod, false) => BinaryOp::Mul,
        (ReduceOp::Max, false) => BinaryOp::Max,
        (ReduceOp::Min, false) => BinaryOp::Min,
    }
}

/// What enters a combination.
enum Part {
    /// The shard at a position, as it is.
    Whole(usize),
    /// A piece: one of those cut for the call.
    Cut(usize),
}

/// Combined pieces of the results of all groups.
pub(super) struct Combined {
    /// The axis along which they were cut, in so many.
    axis: usize,
    n: usize,
    /// For every position the first piece of its group.
    first_job: SmallVec<[usize; 8]>,
    pieces: SmallVec<[LocalArray; 2]>,
}

const OPS: [BinaryOp; 6] =
    [BinaryOp::Or, BinaryOp::And, BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min];

/// The tree over inputs `first..first + n`: the left half has `ceil(n/2)` of them.
fn tree(op: BinaryOp, first: usize, n: usize) -> Expr {
    if n <= 1 {
        return Expr::input(u8::try_from(first).unwrap_or(u8::MAX));
    }
    let left = n.div_ceil(2);
    Expr::binary(op, tree(op, first, left), tree(op, first + left, n - left))
}

/// The kernel that combines `n` parts, from a table made once; `None` for more than it has.
pub(super) fn combination(op: ReduceOp, dtype: DType, n: usize) -> Option<&'static Primitive> {
    static TABLE: OnceLock<Vec<Primitive>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        OPS.iter().flat_map(|op| (0..=FAN).map(|n| Primitive::Map(tree(*op, 0, n)))).collect()
    });
    let row = OPS.iter().position(|known| *known == binary(op, dtype))?;
    if n > FAN { None } else { table.get(row * (FAN + 1) + n) }
}

impl Call<'_> {
    /// all_reduce and reduce_scatter: every device gets the combination of its group, or of its piece of it. `None` where a
    /// device cannot read all parts as they lie, or there are more than one launch takes: see [`Call::tiles`].
    pub(super) fn reduce(&self, by: ReduceOp) -> Result<Option<LocalArrays>> {
        let step = self.step;
        let (source, target) = (&step.source, &step.target);
        let mesh = source.mesh();
        let n: usize = step.axes.iter().map(|axis| mesh.size(*axis)).product();
        if n > FAN {
            return Ok(None);
        }
        let shares = self.shares(target, self.positions)?;
        let scatters = matches!(step.kind, StepKind::ReduceScatter(_));
        let mut jobs: SmallVec<[(Device, Shape); 2]> = SmallVec::new();
        let mut parts: SmallVec<[Part; 8]> = SmallVec::new();
        let mut cut: SmallVec<[LocalArray; 4]> = SmallVec::new();
        for (position, share) in self.positions.iter().zip(&shares) {
            if *share != Share::Own {
                continue;
            }
            let device = device_at(mesh, *position)?;
            let regions = scatters.then(|| (source.region(*position), target.region(*position)));
            for member in mesh.group(*position, &step.axes) {
                let part = self.shard(member)?;
                if !self.backend.shares_memory(part.device(), device) {
                    return Ok(None);
                }
                let Some((old, new)) = &regions else {
                    parts.push(Part::Whole(member));
                    continue;
                };
                let pieces = super::exchange::common_pieces(part, old, new);
                let [(view, _)] = &pieces[..] else { return Ok(None) };
                parts.push(Part::Cut(cut.len()));
                cut.push(view.clone());
            }
            jobs.push((device, target.local_shape(*position)));
        }
        let mut inputs: SmallVec<[&LocalArray; 8]> = SmallVec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Whole(member) => inputs.push(self.shard(member)?),
                Part::Cut(i) => inputs.extend(cut.get(i)),
            }
        }
        let made = self.combine(by, &jobs, &inputs, n)?;
        self.spread(&shares, made).map(Some)
    }

    /// all_reduce over all devices of a mesh that share memory, the usual case of a process: one launch, one result.
    /// `None` where it is not that case.
    pub(super) fn reduce_all(&self, by: ReduceOp) -> Option<Result<LocalArrays>> {
        let (mesh, n) = (self.step.source.mesh(), self.shards.len());
        let first = self.shards.first()?;
        let group: usize = self.step.axes.iter().map(|axis| mesh.size(*axis)).product();
        if group != n || mesh.num_devices() != n || !matches!(self.step.kind, StepKind::AllReduce(_)) {
            return None;
        }
        let primitive = combination(by, first.dtype(), n).filter(|_| n > 1 && first.elements() > 0)?;
        let device = mesh.device(0)?;
        let shared = |other: Device| self.backend.shares_memory(other, device);
        let near = self.shards.iter().all(|shard| shared(shard.device())) && mesh.devices().all(shared);
        near.then(|| {
            let mut inputs: SmallVec<[&LocalArray; FAN]> = SmallVec::new();
            for shard in self.shards {
                inputs.push(shard);
            }
            let mut made = self.alloc(device, first.dtype(), first.shape())?;
            let outputs = std::slice::from_mut(&mut made);
            self.backend.launch(primitive, &mut [Work { op: self.op, device, inputs: &inputs, outputs }])?;
            let mut all = LocalArrays::with_capacity(n);
            for _ in 1..n {
                all.push(made.clone());
            }
            all.push(made);
            Ok(all)
        })
    }

    /// The first half of an all_reduce over devices of which some do not share memory: each member of a group combines a
    /// piece. The second half, [`Call::join`], copies the pieces into every result. So a device never holds the parts of the
    /// others. `None` where memory is shared, or there is nothing to cut.
    pub(super) fn combine_pieces(&self, by: ReduceOp) -> Option<Result<Combined>> {
        let (mesh, axes) = (self.step.source.mesh(), &self.step.axes);
        let shape = self.shards.first()?.shape();
        let (axis, extent) = shape.iter().copied().enumerate().max_by_key(|(_, extent)| *extent)?;
        let group: usize = axes.iter().map(|axis| mesh.size(*axis)).product();
        let near = |position: &usize| {
            let (own, first) = (mesh.device(*position), mesh.group(*position, axes).first().copied());
            matches!((own, first.and_then(|first| mesh.device(first))),
                (Some(a), Some(b)) if self.backend.shares_memory(a, b))
        };
        let scatters = matches!(self.step.kind, StepKind::ReduceScatter(_));
        if scatters || group < 2 || extent < 2 || self.positions.iter().all(near) {
            return None;
        }
        Some(self.pieces_combined(by, axis, group))
    }

    fn pieces_combined(&self, by: ReduceOp, axis: usize, n: usize) -> Result<Combined> {
        let (step, mesh) = (self.step, self.step.source.mesh());
        let mut jobs: SmallVec<[(Device, Shape); 2]> = SmallVec::new();
        let mut inputs: Vec<LocalArray> = Vec::new();
        // For every position the first job of its group; jobs of one group follow each other.
        let mut first_job: SmallVec<[usize; 8]> = SmallVec::new();
        for (i, position) in self.positions.iter().enumerate() {
            let members = mesh.group(*position, &step.axes);
            let known = members.first().filter(|first| *first < position);
            if let Some(job) = known.and_then(|first| first_job.get(super::index_of(self.positions, *first)?))
            {
                first_job.push(*job);
                continue;
            }
            first_job.push(jobs.len());
            let extent = self.shard(*position)?.shape().extent(axis);
            for (part, owner) in members.iter().enumerate() {
                let (device, range) = (device_at(mesh, *owner)?, balanced(extent, n, part));
                for member in &members {
                    let view = self.shard(*member)?.slice(axis, range.start, range.len());
                    inputs.push(self.on_device(&view, device)?);
                }
                jobs.push((device, self.shard(*position)?.shape().with_extent(axis, range.len())));
            }
            debug_assert_eq!(first_job.len(), i + 1);
        }
        let pieces = self.combine_all(by, &jobs, inputs, n)?;
        Ok(Combined { axis, n, first_job, pieces })
    }

    /// The second half: results from pieces. The parts are not needed any more.
    pub(super) fn join(&self, combined: &Combined) -> Result<LocalArrays> {
        let (step, mesh) = (self.step, self.step.source.mesh());
        let Combined { axis, n, first_job, pieces: all } = combined;
        let shares = self.shares(&step.target, self.positions)?;
        let mut made: SmallVec<[LocalArray; 2]> = SmallVec::new();
        let mut pieces: SmallVec<[Pieces; 2]> = SmallVec::new();
        for ((position, share), job) in self.positions.iter().zip(&shares).zip(first_job) {
            if *share != Share::Own {
                continue;
            }
            let shape = step.target.local_shape(*position);
            let mut start = 0;
            let mut own = Pieces::new();
            for piece in all.iter().skip(*job).take(*n) {
                let mut at: SmallVec<[usize; 4]> = SmallVec::from_elem(0, shape.len());
                if let Some(slot) = at.get_mut(*axis) {
                    *slot = start;
                }
                start += piece.shape().extent(*axis);
                if piece.elements() > 0 {
                    own.push((piece.clone(), at));
                }
            }
            made.push(self.alloc(device_at(mesh, *position)?, step.source.dtype(), &shape)?);
            pieces.push(own);
        }
        let moves = made.iter_mut().zip(&pieces).filter(|(into, _)| into.elements() > 0);
        let mut moves: SmallVec<[Move<'_>; 2]> =
            moves.map(|(into, pieces)| Move { op: self.op, pieces, into }).collect();
        self.backend.copy(&mut moves)?;
        drop(moves);
        self.spread(&shares, made)
    }

    /// Combines `n` inputs for each job, in the order of the tree. Each half is let go of when it is combined: what nobody else
    /// holds is freed before more is made.
    pub(super) fn combine_all(
        &self,
        by: ReduceOp,
        jobs: &[(Device, Shape)],
        inputs: Vec<LocalArray>,
        n: usize,
    ) -> Result<SmallVec<[LocalArray; 2]>> {
        if n <= FAN {
            return self.combine(by, jobs, &inputs.iter().collect::<SmallVec<[_; 8]>>(), n);
        }
        let left = n.div_ceil(2);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (i, input) in inputs.into_iter().enumerate() {
            if i % n < left { first.push(input) } else { second.push(input) }
        }
        // The right half where one of its parts lies: the device of the result would hold both beside it. Where all results have
        // their parts from the same devices, each takes another.
        let apart =
            jobs.iter().zip(second.chunks(n - left)).enumerate().map(|(i, ((device, shape), parts))| {
                (parts.get(i % (n - left)).map_or(*device, |part| part.device()), shape.clone())
            });
        let apart: SmallVec<[(Device, Shape); 2]> = apart.collect();
        let a = self.combine_all(by, jobs, first, left)?;
        let b = self.combine_all(by, &apart, second, n - left)?;
        let pairs: SmallVec<[&LocalArray; 8]> = a.iter().zip(&b).flat_map(|(a, b)| [a, b]).collect();
        self.combine(by, jobs, &pairs, 2)
    }

    /// Combines `n` inputs for each job, as many as one launch takes at most.
    fn combine(
        &self,
        by: ReduceOp,
        jobs: &[(Device, Shape)],
        inputs: &[&LocalArray],
        n: usize,
    ) -> Result<SmallVec<[LocalArray; 2]>> {
        let dtype = self.step.source.dtype();
        if n == 1 {
            return Ok(inputs.iter().map(|input| (*input).clone()).collect());
        }
        let Some(primitive) = combination(by, dtype, n) else {
            return Err(Error::new(ErrorKind::Internal, format!("no kernel combines {n} parts")));
        };
        let mut made: SmallVec<[LocalArray; 2]> = SmallVec::with_capacity(jobs.len());
        for (device, shape) in jobs {
            made.push(self.alloc(*device, dtype, shape)?);
        }
        let mut work: SmallVec<[Work<'_>; 2]> = SmallVec::with_capacity(jobs.len());
        for ((inputs, output), (device, _)) in inputs.chunks(n).zip(made.iter_mut()).zip(jobs) {
            if output.elements() > 0 {
                let outputs = std::slice::from_mut(output);
                work.push(Work { op: self.op, device: *device, inputs, outputs });
            }
        }
        if !work.is_empty() {
            self.backend.launch(primitive, &mut work)?;
        }
        drop(work);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(op: BinaryOp, n: usize) -> String {
        fn node(expr: &Expr, at: usize) -> String {
            match expr.nodes()[at] {
                crate::backend::Node::Input(i) => i.to_string(),
                crate::backend::Node::Binary(_, a, b) => {
                    format!("({} {})", node(expr, a.into()), node(expr, b.into()))
                }
                other => panic!("{other:?}"),
            }
        }
        let expr = tree(op, 0, n);
        node(&expr, expr.nodes().len() - 1)
    }

    #[test]
    fn the_left_half_is_the_larger() {
        assert_eq!(text(BinaryOp::Add, 2), "(0 1)");
        assert_eq!(text(BinaryOp::Add, 3), "((0 1) 2)");
        assert_eq!(text(BinaryOp::Add, 5), "(((0 1) 2) (3 4))");
        let Some(Primitive::Map(expr)) = combination(ReduceOp::Max, DType::F32, 8) else { panic!() };
        assert_eq!(expr.inputs(), 8);
        assert!(combination(ReduceOp::Sum, DType::Bool, 9).is_none());
    }
}
