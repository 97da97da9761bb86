//! What staged rows share.

use sharding_core::backend::{Expr, LocalArray};
use sharding_core::rule::RuleCx;
use sharding_core::{DType, Error, ErrorKind, Result, Shards, StageCx, TensorMeta};

/// Bytes of the first operand with `axis` reduced to extent 1, in its dtype and in that of its sums.
pub(crate) fn reduced_bytes(cx: &RuleCx<'_>, axis: usize) -> (usize, usize) {
    let Some(x) = cx.operands.first() else { return (0, 0) };
    let bytes = |dtype| TensorMeta::new(dtype, x.meta.shape.with_extent(axis, 1)).bytes();
    (bytes(x.meta.dtype), bytes(x.meta.dtype.accumulator()))
}

/// An expression of dtype `from` as one of dtype `to`.
pub(crate) fn to(from: DType, to: DType, x: Expr) -> Expr {
    if from == to { x } else { Expr::cast(to, x) }
}

/// Shards in the dtype in which their sums are kept: f16 and bf16 as f32.
pub(crate) fn widened(cx: &mut StageCx<'_>, shards: &Shards) -> Result<Shards> {
    cx.each(|k, i| {
        let x = shard(shards, i)?;
        let wide = x.dtype().accumulator();
        if wide == x.dtype() { Ok(x.clone()) } else { k.map(&Expr::cast(wide, Expr::input(0)), &[x]) }
    })
}

/// One shard of a list, as stages get them.
pub(crate) fn shard(shards: &Shards, i: usize) -> Result<&LocalArray> {
    shards.get(i).ok_or_else(|| Error::new(ErrorKind::Internal, format!("there is no shard {i}")))
}
