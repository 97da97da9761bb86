//! Memory of a GPU.

use crate::{device, element};
use sharding_core::{Device, Error};

/// The error of what needs memory: what is missing on this machine, else that there is no allocator yet.
pub(crate) fn no_memory(what: &str, at: Device) -> Error {
    match device::probe() {
        Err(error) => error,
        Ok(_) => element::not_yet(&format!("{what} on {at}"), "an allocator and transfers"),
    }
}
