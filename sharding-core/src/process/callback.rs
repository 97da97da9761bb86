//! Pieces that a callback brings.

use crate::dispatch::{guarded, making};
use crate::tensor::check_host_data;
use crate::{Region, Result, Tensor, TensorLayout};
use std::panic::Location;

impl Tensor {
    /// A tensor of this layout whose pieces `fill` brings: it is called once for every distinct slice that this
    /// process addresses, with the slice's index ranges per tensor axis and as many bytes (zeros) as it has, to be
    /// filled in native order, row-major. As JAX's `make_array_from_callback`, which asks again for every replica.
    /// [`TensorLayout::new`] takes any sharding.
    ///
    /// One buffer serves all slices in turn, so the process never holds more on the host than the largest of them.
    /// Devices with equal slices share one storage where memory is shared. Slices without elements are asked for
    /// too.
    ///
    /// ```no_run
    /// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, Region, Tensor, TensorLayout};
    ///
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"])?;
    /// let columns = DeviceMapping::new(&mesh, [Place::Replicated, Place::Sharded(1)])?;
    /// let mut asked = Vec::new();
    /// let x = Tensor::from_callback(TensorLayout::new(DType::F32, [2, 3], columns)?, |region: &Region, bytes| {
    ///     asked.push((region[1][0].clone(), bytes.len()));
    ///     Ok(())
    /// })?;
    /// assert_eq!(asked, [(0..2, 16), (2..3, 8)]);
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`](crate::ErrorKind::Mapping) for Partial and Unknown placements, what `fill` says (with the
    /// layout added), [`ErrorKind::Kernel`](crate::ErrorKind::Kernel) if it panics, else what the backend says.
    #[track_caller]
    pub fn from_callback(
        layout: TensorLayout,
        mut fill: impl FnMut(&Region, &mut [u8]) -> Result<()>,
    ) -> Result<Self> {
        const OP: &str = "from_callback";
        let at = Location::caller();
        let make = || {
            Self::from_pieces(
                layout.clone(),
                |_| Ok(None),
                |region, bytes| guarded("the callback of from_callback", || fill(region, bytes)),
            )
        };
        check_host_data(&layout)
            .and_then(|()| making(OP, at, &layout, make))
            .map_err(|error| error.with_op(OP).with_operands([format!("value: {layout}")]))
    }
}
