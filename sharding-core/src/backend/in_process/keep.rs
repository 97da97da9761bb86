//! `keep_one_copy`: one device of a group keeps its copy (or every device its piece), the rest holds the identity.

use super::Call;
use crate::backend::{Expr, LocalArray, LocalArrays, Move, Primitive, Work};
use crate::tensor::device_at;
use crate::{DType, Device, Place, ReduceOp, Result, Scalar, Shape};
use smallvec::SmallVec;

/// The kernel that fills with the identity. For sums of floats that is -0: adding 0 would turn -0 into 0.
pub(super) fn identity(op: ReduceOp, dtype: DType) -> Primitive {
    let value = match op {
        ReduceOp::Sum if dtype.is_float() => Scalar::Float(-0.0),
        _ => op.identity(dtype),
    };
    Primitive::Map(Expr::constant(value, dtype))
}

impl Call<'_> {
    pub(super) fn keep_one_copy(&self, by: ReduceOp) -> Result<LocalArrays> {
        let (source, target) = (&self.step.source, &self.step.target);
        let mesh = source.mesh();
        let mut kept = LocalArrays::with_capacity(self.positions.len());
        // Arrays of identities: those that nobody writes are shared.
        let mut fills: SmallVec<[LocalArray; 2]> = SmallVec::new();
        let mut wanted: SmallVec<[(usize, Want); 4]> = SmallVec::new();
        for (i, position) in self.positions.iter().enumerate() {
            let shard = self.shard(*position)?;
            kept.push(shard.clone());
            let changed = self
                .step
                .axes
                .iter()
                .filter(|axis| source.mapping().place(**axis) != target.mapping().place(**axis));
            let keeps = changed.clone().all(|axis| {
                source.mapping().place(*axis) != Place::Replicated || mesh.coord(*position, *axis) == 0
            });
            let shape = target.local_shape(*position);
            let device = device_at(mesh, *position)?;
            if keeps && shape == *shard.shape() {
                continue;
            }
            if keeps {
                wanted.push((i, Want::Piece(fills.len())));
                fills.push(self.backend.alloc(device, source.dtype(), &shape)?);
            } else {
                let shared = self.same_fill(&fills, &wanted, device, &shape);
                wanted.push((i, Want::Identity(shared.unwrap_or(fills.len()))));
                if shared.is_none() {
                    fills.push(self.backend.alloc(device, source.dtype(), &shape)?);
                }
            }
        }
        self.fill(by, &mut fills)?;
        for (i, want) in &wanted {
            let (Want::Piece(fill), Some(position), Some(slot)) =
                (*want, self.positions.get(*i), kept.get(*i))
            else {
                continue;
            };
            let Some(into) = fills.get_mut(fill) else { continue };
            if slot.elements() > 0 {
                self.embed(*position, slot, into)?;
            }
        }
        for (i, want) in &wanted {
            let (Want::Piece(fill) | Want::Identity(fill)) = *want;
            if let (Some(slot), Some(array)) = (kept.get_mut(*i), fills.get(fill)) {
                *slot = array.clone();
            }
        }
        Ok(kept)
    }

    fn same_fill(
        &self,
        fills: &[LocalArray],
        wanted: &[(usize, Want)],
        device: Device,
        shape: &Shape,
    ) -> Option<usize> {
        wanted.iter().find_map(|(_, want)| match want {
            Want::Identity(fill) => fills
                .get(*fill)
                .is_some_and(|array| {
                    array.shape() == shape && self.backend.shares_memory(array.device(), device)
                })
                .then_some(*fill),
            Want::Piece(_) => None,
        })
    }

    fn fill(&self, by: ReduceOp, fills: &mut [LocalArray]) -> Result<()> {
        let mut work: SmallVec<[Work<'_>; 2]> = SmallVec::new();
        for array in fills.iter_mut().filter(|array| array.elements() > 0) {
            let device = array.device();
            work.push(Work { op: self.op, device, inputs: &[], outputs: std::slice::from_mut(array) });
        }
        if work.is_empty() {
            return Ok(());
        }
        self.backend.launch(&identity(by, self.step.source.dtype()), &mut work)
    }

    /// Copies a device's piece into its new, larger shard.
    fn embed(&self, position: usize, piece: &LocalArray, into: &mut LocalArray) -> Result<()> {
        let (old, new) = (self.step.source.region(position), self.step.target.region(position));
        let pieces = super::exchange::common_pieces(piece, &old, &new);
        self.backend.copy(&mut [Move { op: self.op, pieces: &pieces, into }])
    }
}

#[derive(Clone, Copy)]
enum Want {
    /// Its own fill, into which its piece is copied.
    Piece(usize),
    /// A fill that others may share.
    Identity(usize),
}
