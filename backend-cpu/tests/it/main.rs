//! Every primitive against a reference that is written for clarity: random shapes, views and dtypes.

mod conformance;
mod copy;
mod dot;
mod dtype;
mod function;
mod fused;
mod gather;
mod map;
mod memory;
mod reduce;
mod sum;
mod support;
mod thread;
