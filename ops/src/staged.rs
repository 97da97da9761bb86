//! What staged rows share.

use sharding_core::backend::LocalArray;
use sharding_core::rule::RuleCx;
use sharding_core::{Error, ErrorKind, Result, Shards, TensorMeta};

/// Bytes of the first operand with `axis` reduced to extent 1.
pub(crate) fn reduced_bytes(cx: &RuleCx<'_>, axis: usize) -> usize {
    cx.operands
        .first()
        .map_or(0, |x| TensorMeta::new(x.meta.dtype, x.meta.shape.with_extent(axis, 1)).bytes())
}

/// One shard of a list, as stages get them.
pub(crate) fn shard(shards: &Shards, i: usize) -> Result<&LocalArray> {
    shards.get(i).ok_or_else(|| Error::new(ErrorKind::Internal, format!("there is no shard {i}")))
}
