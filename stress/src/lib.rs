//! What a crate outside of this workspace would do: it adds an op ([`op`]), a placement ([`zigzag`]), a kernel for one
//! backend and two backends: one that finishes out of order and fails late ([`deferred`]), one that pretends
//! several processes in one program ([`pretend`]). It sees the public contracts only.

extern crate sharding_ops as _;

pub mod deferred;
pub mod op;
pub mod pretend;
pub mod zigzag;
