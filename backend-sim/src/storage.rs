//! Arrays without data.

use crate::Simulation;
use sharding_core::backend::{LocalArray, LocalMeta};
use sharding_core::{DType, Device, Error, ErrorKind, Result, Shape};
use std::sync::Arc;

/// A contiguous array that counts its bytes.
pub(crate) fn alloc(device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, extent| bytes.checked_mul(*extent));
    let bytes = bytes.ok_or_else(|| {
        Error::new(ErrorKind::Overflow, format!("{dtype}{shape} has more bytes than can be counted"))
    })?;
    let storage = Simulation::current().hold(device, bytes)?;
    Ok(LocalArray::new(LocalMeta::contiguous(dtype, shape.clone()), storage))
}

/// Makes a written array the only holder of its storage, as backends with data do by a copy.
pub(crate) fn own(array: &mut LocalArray) -> Result<()> {
    if Arc::get_mut(array.storage_mut()).is_none() {
        let (device, bytes) = (array.device(), array.storage().bytes());
        *array.storage_mut() = Simulation::current().hold(device, bytes)?;
    }
    Ok(())
}
