//! Index maps over shards: every device copies what its result needs straight from the shards that hold it.

use super::exchange::{Pieces, joined};
use super::recipe::{Made, recipe};
use super::{InProcess, spread};
use crate::backend::{Exchange, Expr, LocalArray, LocalArrays, Move, Primitive, Work};
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
        let recipe = recipe(self.0, op, exchange)?;
        let mut made: SmallVec<[LocalArray; 2]> = SmallVec::new();
        let mut copies: SmallVec<[(usize, Pieces); 2]> = SmallVec::new();
        for own in &recipe.made {
            let device = device_at(mesh, own.position)?;
            let pieces = pieces(own, op, shards)?;
            let near = pieces.iter().all(|(piece, _)| self.0.shares_memory(piece.device(), device));
            let view = if near && own.full { joined(&pieces, &own.shape) } else { None };
            if let Some(view) = view {
                made.push(view);
                continue;
            }
            let mut into = self.0.alloc(device, result.dtype(), &own.shape)?;
            if !own.full {
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
        spread(op, &recipe.shares, made)
    }
}

/// The views that a shard is made of.
fn pieces(made: &Made, op: &'static str, shards: &[LocalArrays]) -> Result<Pieces> {
    let piece = |taken: &super::recipe::Taken| {
        let shard = shards.get(taken.operand).and_then(|held| held.get(taken.shard)).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("an exchange lacks shard {}", taken.shard)).with_op(op)
        })?;
        Ok((taken.part.view(shard), taken.part.into.clone()))
    };
    made.parts.iter().map(piece).collect()
}
