//! The ops, one per file. The crate root re-exports them: an op is a function and a type of one name, which its module
//! would hide there.

pub(crate) mod add;
pub(crate) mod all_gather;
pub(crate) mod all_reduce;
pub(crate) mod buffer_store;
pub(crate) mod buffer_store_slice;
pub(crate) mod concat;
pub(crate) mod div;
pub(crate) mod embedding;
pub(crate) mod full;
pub(crate) mod gather;
pub(crate) mod gelu;
pub(crate) mod layer_norm;
pub(crate) mod matmul;
pub(crate) mod max;
pub(crate) mod mean;
pub(crate) mod mul;
pub(crate) mod permute;
pub(crate) mod rebind_mapping;
pub(crate) mod reduce_scatter;
pub(crate) mod relu;
pub(crate) mod reshape;
pub(crate) mod slice;
pub(crate) mod softmax;
pub(crate) mod sub;
pub(crate) mod sum;
pub(crate) mod transfer_to;
pub(crate) mod where_;
