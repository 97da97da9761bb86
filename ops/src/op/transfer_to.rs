//! Another mapping for the same tensor.

use sharding_core::{Result, Target, Tensor};

/// The same tensor under another mapping: on the same mesh, on another one, or on one device; see
/// [`Tensor::transfer_to`]. Nothing moves if it lies so already.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1_i64, 2, 3, 4], [2, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = transfer_to(&x, &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// assert_eq!(y.shard_to_vec::<i64>(0)?, [1, 3]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::transfer_to`].
#[track_caller]
pub fn transfer_to(x: &Tensor, target: &(impl Target + ?Sized)) -> Result<Tensor> {
    x.transfer_to(target)
}
