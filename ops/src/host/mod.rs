//! Host arrays on their way to devices and back.

#[cfg(feature = "ndarray")]
mod from_ndarray;
#[cfg(feature = "ndarray")]
mod to_ndarray;

#[cfg(feature = "ndarray")]
pub use to_ndarray::{ToNdarray, shard_view};

use sharding_core::{HostCopy, HostData, LocalDataOptions, Result, Shape, Target, Tensor};

/// What [`place_host_array`] takes: [`HostData`], and with the feature `ndarray` (on by default) the arrays of that crate.
///
/// Views and references are borrowed; an `Array` or `ArcArray` that is passed by value is owned. Any order of axes,
/// negative strides and broadcast views are taken as they lie.
pub trait HostSource<'a> {
    /// It as host data.
    ///
    /// # Errors
    /// As [`Shape::new`].
    fn host_data(self) -> Result<HostData<'a>>;
}

impl<'a> HostSource<'a> for HostData<'a> {
    fn host_data(self) -> Result<HostData<'a>> {
        Ok(self)
    }
}
impl<'a> HostSource<'a> for &HostData<'a> {
    fn host_data(self) -> Result<HostData<'a>> {
        Ok(self.clone())
    }
}

/// A tensor from an array in host memory, laid out by `target`; see [`Tensor::place_host_array`].
///
/// ```
/// use ndarray::array;
/// use sharding_ops::*;
///
/// let devices = [0, 1].map(|slot| Device::cpu().with_slot(slot));
/// let mesh = make_mesh(&devices, [2], ["x"], [AxisType::Explicit])?;
/// let mut weights = array![[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]];
/// let columns = layout(&mesh, spec![None, "x"])?;
/// // A view is borrowed, so it is copied: the tensor is a snapshot.
/// let x = place_host_array(weights.view(), &columns, HostCopy::WhereNeeded)?;
/// weights[[0, 0]] = 100.0;
/// assert_eq!(x.shard_to_vec::<f32>(0)?, [1.0, 3.0, 5.0, 7.0]);
/// // An owned array is kept where it lies, and its shards are views of it.
/// let y = place_host_array(weights, &columns, HostCopy::WhereNeeded)?;
/// assert_eq!(y.to_ndarray::<f32>()?[[0, 0]], 100.0);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::place_host_array`].
#[track_caller]
pub fn place_host_array<'a>(
    source: impl HostSource<'a>,
    target: &(impl Target + ?Sized),
    copy: HostCopy,
) -> Result<Tensor> {
    let data = source.host_data().map_err(|error| error.with_op("place_host_array"))?;
    Tensor::place_host_array(&data, target, copy)
}

/// A tensor from what each process has of it; see [`Tensor::from_process_local_data`].
///
/// ```
/// use ndarray::Array2;
/// use sharding_ops::*;
///
/// // The only process has all rows.
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["x"])?;
/// let rows = NamedSharding::new(&mesh, spec!["x"])?;
/// let mine = Array2::<f32>::ones((4, 3));
/// let x = from_process_local_data(mine.view(), [4, 3], &rows, ReplicaPolicy::Disallow)?;
/// assert_eq!(x.shard_to_vec::<f32>(1)?, [1.0; 6]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::from_process_local_data`].
#[track_caller]
pub fn from_process_local_data<'a>(
    source: impl HostSource<'a>,
    global_shape: impl Into<Shape>,
    target: &(impl Target + ?Sized),
    options: impl Into<LocalDataOptions>,
) -> Result<Tensor> {
    let data = source.host_data().map_err(|error| error.with_op("from_process_local_data"))?;
    Tensor::from_process_local_data(&data, global_shape, target, options)
}
