//! What the attributes declare, seen from a crate that uses them.

#![forbid(unsafe_code)]

mod declare;
