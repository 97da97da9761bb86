//! Index maps over shards: every device copies what its result needs straight from the shards that hold it.

use super::exchange::{Pieces, joined};
use super::{InProcess, Share, shard_at, shares, spread};
use crate::backend::{Exchange, Expr, LocalArray, LocalArrays, Move, Primitive, Work};
use crate::redistribute::index_cut;
use crate::tensor::device_at;
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;

impl InProcess<'_> {
    /// [`Collectives::exchange`](crate::backend::Collectives::exchange) where all shards are in this process.
    pub(super) fn run_exchange(
        &self,
        op: &'static str,
        exchange: &Exchange<'_>,
        shards: &[LocalArrays],
    ) -> Result<LocalArrays> {
        let (result, mesh) = (exchange.result, exchange.result.mesh());
        let positions = self.0.positions(mesh)?;
        let shares = shares(self.0, result, &positions)?;
        let mut made: SmallVec<[LocalArray; 2]> = SmallVec::new();
        let mut copies: SmallVec<[(usize, Pieces); 2]> = SmallVec::new();
        for (position, share) in positions.iter().zip(&shares) {
            if *share != Share::Own {
                continue;
            }
            let device = device_at(mesh, *position)?;
            let shape = result.local_shape(*position);
            let mut pieces = Pieces::new();
            let mut covered = 0;
            for cut in exchange.cuts(*position)? {
                let wanted = cut.elements();
                let mut found = 0;
                let layout = exchange.operand(cut.operand)?;
                let held = shards.get(cut.operand).map_or(&[][..], |shards| shards);
                for owner in exchange.owners(cut.operand, *position)? {
                    if found == wanted {
                        break;
                    }
                    let shard = shard_at(&positions, held, owner).ok_or_else(|| {
                        Error::new(
                            ErrorKind::Process,
                            format!("the shard of device {owner} of {layout} is in another process"),
                        )
                        .with_op(op)
                        .with_fix("use a backend with collectives between processes")
                    })?;
                    found += index_cut::views(&cut, shard, &layout.region(owner), &mut pieces);
                }
                if found != wanted {
                    return Err(Error::new(
                        ErrorKind::Internal,
                        format!("device {position} lacks elements of {layout} for {result}"),
                    )
                    .with_op(op));
                }
                covered += wanted;
            }
            let near = pieces.iter().all(|(piece, _)| self.0.shares_memory(piece.device(), device));
            let full = covered == shape.elements();
            let view = if near && full { joined(&pieces, &shape) } else { None };
            if let Some(view) = view {
                made.push(view);
                continue;
            }
            let mut into = self.0.alloc(device, result.dtype(), &shape)?;
            if !full {
                let fill = Primitive::Map(Expr::constant(exchange.map.fill, result.dtype()));
                let outputs = std::slice::from_mut(&mut into);
                self.0.launch(&fill, &mut [Work { op, device, inputs: &[], outputs }])?;
            }
            if !pieces.is_empty() {
                copies.push((made.len(), pieces));
            }
            made.push(into);
        }
        if !copies.is_empty() {
            let mut rest = copies.iter().peekable();
            let mut moves: SmallVec<[Move<'_>; 2]> = SmallVec::with_capacity(copies.len());
            for (i, into) in made.iter_mut().enumerate() {
                if let Some((_, pieces)) = rest.next_if(|(to, _)| *to == i) {
                    moves.push(Move { op, pieces, into });
                }
            }
            self.0.copy(&mut moves)?;
        }
        spread(op, &shares, made)
    }
}
