//! The locks at which the threads of a region wait: the standard library's. Under `cfg(loom)` they are loom's, and the
//! models beside each user run through every order in which its threads can come (`cargo xtask test --deep`).

#[cfg(loom)]
pub(super) use loom::{
    hint::spin_loop,
    sync::{Condvar, Mutex},
};
#[cfg(not(loom))]
pub(super) use std::{
    hint::spin_loop,
    sync::{Condvar, Mutex},
};

use std::sync::{LockResult, PoisonError};

/// What a lock guards, also where a thread panicked that held it: it is whole between any two statements.
pub(super) fn whole<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}
