//! Tensors and shards as arrays of ndarray.

use ndarray::{ArrayD, ArrayViewD, Axis, IxDyn, ShapeBuilder};
use sharding_core::{Element, Error, ErrorKind, Result, Shape, Shard, Tensor};

/// Elements as an array of ndarray, row-major.
pub trait ToNdarray {
    /// All elements: of a tensor the whole, brought together as by [`Tensor::to_vec`]; of a [`Shard`] its own.
    ///
    /// ```
    /// use sharding_ops::*;
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["x"])?;
    /// let x = Tensor::from_slice(&[1_i64, 2, 3, 4], [2, 2], &NamedSharding::new(&mesh, spec!["x"])?)?;
    /// assert_eq!(x.to_ndarray::<i64>()?, ndarray::array![[1, 2], [3, 4]].into_dyn());
    /// for shard in x.addressable_shards() {
    ///     assert_eq!(shard.to_ndarray::<i64>()?.shape(), [1, 2]);
    /// }
    /// # Ok::<(), sharding_ops::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>>;
}

impl ToNdarray for Tensor {
    fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        array(self.shape(), self.to_vec()?)
    }
}

impl ToNdarray for Shard<'_> {
    fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        array(self.shape(), self.to_vec()?)
    }
}

fn array<T>(shape: &Shape, values: Vec<T>) -> Result<ArrayD<T>> {
    ArrayD::from_shape_vec(IxDyn(shape), values).map_err(|error| {
        Error::new(ErrorKind::Internal, "elements do not fill their shape").with_source(error)
    })
}

/// The elements of a shard where they lie, if that is host memory: nothing is copied. `None` elsewhere, and where the
/// elements are of another dtype; then there is [`ToNdarray::to_ndarray`].
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["x"])?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &NamedSharding::new(&mesh, spec![None, "x"])?)?;
/// for shard in x.addressable_shards() {
///     let view = shard_view::<f32>(&shard)?.ok_or(Error::new(ErrorKind::Backend, "not in host memory"))?;
///     assert_eq!(view.shape(), [2, 1]);
/// }
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// What the backend says.
pub fn shard_view<'a, T: Element>(shard: &Shard<'a>) -> Result<Option<ArrayViewD<'a, T>>> {
    let data = shard.host_view()?;
    let Some((meta, memory)) = data.as_ref().and_then(|data| Some((data.meta(), data.borrowed_memory()?)))
    else {
        return Ok(None);
    };
    let elements = if meta.dtype == T::DTYPE { T::view(memory) } else { None };
    // ndarray takes no negative strides: the view is made from the lowest element on and its axes turned around.
    let part = meta.span().and_then(|span| elements?.get(span));
    let Some(part) = part else { return Ok(None) };
    let steps: Vec<usize> = meta.strides.iter().map(|stride| stride.unsigned_abs()).collect();
    let view = match part {
        [] => ArrayViewD::from_shape(IxDyn(&meta.shape), part),
        _ => ArrayViewD::from_shape(IxDyn(&meta.shape).strides(IxDyn(&steps)), part),
    };
    let mut view = view
        .map_err(|error| Error::new(ErrorKind::Internal, "a shard beyond its memory").with_source(error))?;
    for (axis, stride) in meta.strides.iter().enumerate() {
        if *stride < 0 {
            view.invert_axis(Axis(axis));
        }
    }
    Ok(Some(view))
}
