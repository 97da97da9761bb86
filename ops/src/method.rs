//! Methods: `x.matmul(&y)?.relu()?`. Each calls the function of its name, which documents it.

use crate::{Index, MeshAxes, SplitSizes};
use sharding_core::{DType, Operand, Result, Scalar, Tensor};

/// The ops as methods of [`Tensor`].
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = Tensor::from_slice(&[1.0_f32, -2.0, 3.0, -4.0], [2, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let y = x.matmul(&x)?.relu()?.sum(-1, false)?;
/// assert_eq!(y.to_vec::<f32>()?, [6.0, 10.0]);
/// assert_eq!((&y + 1.0)?.to_vec::<f32>()?, [7.0, 11.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
pub trait TensorOps {
    /// See [`add`](fn@crate::add).
    ///
    /// # Errors
    /// As the function.
    fn add<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`sub`](fn@crate::sub).
    ///
    /// # Errors
    /// As the function.
    fn sub<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`mul`](fn@crate::mul).
    ///
    /// # Errors
    /// As the function.
    fn mul<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`div`](fn@crate::div).
    ///
    /// # Errors
    /// As the function.
    fn div<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`matmul`](fn@crate::matmul).
    ///
    /// # Errors
    /// As the function.
    fn matmul(&self, rhs: &Tensor) -> Result<Tensor>;
    /// See [`relu`](fn@crate::relu).
    ///
    /// # Errors
    /// As the function.
    fn relu(&self) -> Result<Tensor>;
    /// See [`gelu`](fn@crate::gelu).
    ///
    /// # Errors
    /// As the function.
    fn gelu(&self) -> Result<Tensor>;
    /// See [`gelu_tanh`](fn@crate::gelu_tanh).
    ///
    /// # Errors
    /// As the function.
    fn gelu_tanh(&self) -> Result<Tensor>;
    /// See [`silu`](fn@crate::silu).
    ///
    /// # Errors
    /// As the function.
    fn silu(&self) -> Result<Tensor>;
    /// See [`sigmoid`](fn@crate::sigmoid).
    ///
    /// # Errors
    /// As the function.
    fn sigmoid(&self) -> Result<Tensor>;
    /// See [`tanh`](fn@crate::tanh).
    ///
    /// # Errors
    /// As the function.
    fn tanh(&self) -> Result<Tensor>;
    /// See [`erf`](fn@crate::erf).
    ///
    /// # Errors
    /// As the function.
    fn erf(&self) -> Result<Tensor>;
    /// See [`exp`](fn@crate::exp).
    ///
    /// # Errors
    /// As the function.
    fn exp(&self) -> Result<Tensor>;
    /// See [`log`](fn@crate::log).
    ///
    /// # Errors
    /// As the function.
    fn log(&self) -> Result<Tensor>;
    /// See [`sqrt`](fn@crate::sqrt).
    ///
    /// # Errors
    /// As the function.
    fn sqrt(&self) -> Result<Tensor>;
    /// See [`rsqrt`](fn@crate::rsqrt).
    ///
    /// # Errors
    /// As the function.
    fn rsqrt(&self) -> Result<Tensor>;
    /// See [`abs`](fn@crate::abs).
    ///
    /// # Errors
    /// As the function.
    fn abs(&self) -> Result<Tensor>;
    /// See [`neg`](fn@crate::neg).
    ///
    /// # Errors
    /// As the function.
    fn neg(&self) -> Result<Tensor>;
    /// See [`eq`](fn@crate::eq).
    ///
    /// # Errors
    /// As the function.
    fn eq<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`ne`](fn@crate::ne).
    ///
    /// # Errors
    /// As the function.
    fn ne<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`lt`](fn@crate::lt).
    ///
    /// # Errors
    /// As the function.
    fn lt<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`le`](fn@crate::le).
    ///
    /// # Errors
    /// As the function.
    fn le<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`gt`](fn@crate::gt).
    ///
    /// # Errors
    /// As the function.
    fn gt<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`ge`](fn@crate::ge).
    ///
    /// # Errors
    /// As the function.
    fn ge<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`logical_and`](fn@crate::logical_and).
    ///
    /// # Errors
    /// As the function.
    fn logical_and<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`logical_or`](fn@crate::logical_or).
    ///
    /// # Errors
    /// As the function.
    fn logical_or<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`logical_xor`](fn@crate::logical_xor).
    ///
    /// # Errors
    /// As the function.
    fn logical_xor<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`logical_not`](fn@crate::logical_not).
    ///
    /// # Errors
    /// As the function.
    fn logical_not(&self) -> Result<Tensor>;
    /// See [`maximum`](fn@crate::maximum).
    ///
    /// # Errors
    /// As the function.
    fn maximum<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`minimum`](fn@crate::minimum).
    ///
    /// # Errors
    /// As the function.
    fn minimum<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`pow`](fn@crate::pow).
    ///
    /// # Errors
    /// As the function.
    fn pow<'a>(&'a self, exponent: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`clamp`](fn@crate::clamp).
    ///
    /// # Errors
    /// As the function.
    fn clamp<'a>(&'a self, low: impl Into<Operand<'a>>, high: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// See [`cast`](fn@crate::cast).
    ///
    /// # Errors
    /// As the function.
    fn cast(&self, dtype: DType) -> Result<Tensor>;
    /// See [`sum`](fn@crate::sum).
    ///
    /// # Errors
    /// As the function.
    fn sum(&self, axis: isize, keepdims: bool) -> Result<Tensor>;
    /// See [`max`](fn@crate::max).
    ///
    /// # Errors
    /// As the function.
    fn max(&self, axis: isize, keepdims: bool) -> Result<Tensor>;
    /// See [`min`](fn@crate::min).
    ///
    /// # Errors
    /// As the function.
    fn min(&self, axis: isize, keepdims: bool) -> Result<Tensor>;
    /// See [`prod`](fn@crate::prod).
    ///
    /// # Errors
    /// As the function.
    fn prod(&self, axis: isize, keepdims: bool) -> Result<Tensor>;
    /// See [`mean`](fn@crate::mean).
    ///
    /// # Errors
    /// As the function.
    fn mean(&self, axis: isize, keepdims: bool) -> Result<Tensor>;
    /// See [`softmax`](fn@crate::softmax).
    ///
    /// # Errors
    /// As the function.
    fn softmax(&self, axis: isize) -> Result<Tensor>;
    /// See [`layer_norm`](fn@crate::layer_norm).
    ///
    /// # Errors
    /// As the function.
    fn layer_norm(&self, gamma: &Tensor, beta: &Tensor, eps: f64) -> Result<Tensor>;
    /// See [`rms_norm`](fn@crate::rms_norm).
    ///
    /// # Errors
    /// As the function.
    fn rms_norm(&self, weight: &Tensor, eps: f64) -> Result<Tensor>;
    /// See [`linear`](fn@crate::linear).
    ///
    /// # Errors
    /// As the function.
    fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor>;
    /// See [`reshape`](fn@crate::reshape).
    ///
    /// # Errors
    /// As the function.
    fn reshape(&self, dims: &[isize]) -> Result<Tensor>;
    /// See [`permute`](fn@crate::permute).
    ///
    /// # Errors
    /// As the function.
    fn permute(&self, axes: &[isize]) -> Result<Tensor>;
    /// See [`flatten`](fn@crate::flatten).
    ///
    /// # Errors
    /// As the function.
    fn flatten(&self, start: isize, end: isize) -> Result<Tensor>;
    /// See [`transpose`](fn@crate::transpose).
    ///
    /// # Errors
    /// As the function.
    fn transpose(&self, a: isize, b: isize) -> Result<Tensor>;
    /// See [`squeeze`](fn@crate::squeeze).
    ///
    /// # Errors
    /// As the function.
    fn squeeze(&self, axis: isize) -> Result<Tensor>;
    /// See [`unsqueeze`](fn@crate::unsqueeze).
    ///
    /// # Errors
    /// As the function.
    fn unsqueeze(&self, axis: isize) -> Result<Tensor>;
    /// See [`broadcast_to`](fn@crate::broadcast_to).
    ///
    /// # Errors
    /// As the function.
    fn broadcast_to(&self, dims: &[usize]) -> Result<Tensor>;
    /// See [`flip`](fn@crate::flip).
    ///
    /// # Errors
    /// As the function.
    fn flip(&self, axes: &[isize]) -> Result<Tensor>;
    /// See [`roll`](fn@crate::roll).
    ///
    /// # Errors
    /// As the function.
    fn roll(&self, shift: isize, axis: isize) -> Result<Tensor>;
    /// See [`pad`](fn@crate::pad).
    ///
    /// # Errors
    /// As the function.
    fn pad(&self, pads: &[(usize, usize)], value: impl Into<Scalar>) -> Result<Tensor>;
    /// See [`tile`](fn@crate::tile).
    ///
    /// # Errors
    /// As the function.
    fn tile(&self, repeats: &[usize]) -> Result<Tensor>;
    /// See [`repeat`](fn@crate::repeat).
    ///
    /// # Errors
    /// As the function.
    fn repeat(&self, times: usize, axis: isize) -> Result<Tensor>;
    /// See [`split`](fn@crate::split).
    ///
    /// # Errors
    /// As the function.
    fn split(&self, sizes: impl Into<SplitSizes>, axis: isize) -> Result<Vec<Tensor>>;
    /// See [`chunk`](fn@crate::chunk).
    ///
    /// # Errors
    /// As the function.
    fn chunk(&self, chunks: usize, axis: isize) -> Result<Vec<Tensor>>;
    /// See [`slice`](fn@crate::slice).
    ///
    /// # Errors
    /// As the function.
    fn slice(&self, indices: &[Index]) -> Result<Tensor>;
    /// See [`gather`](fn@crate::gather).
    ///
    /// # Errors
    /// As the function.
    fn gather(&self, indices: &Tensor, axis: isize) -> Result<Tensor>;
    /// See [`all_reduce`](fn@crate::all_reduce).
    ///
    /// # Errors
    /// As the function.
    fn all_reduce(&self, mesh_axes: impl MeshAxes) -> Result<Tensor>;
    /// See [`all_gather`](fn@crate::all_gather).
    ///
    /// # Errors
    /// As the function.
    fn all_gather(&self, mesh_axes: impl MeshAxes, tensor_axis: isize) -> Result<Tensor>;
    /// See [`reduce_scatter`](fn@crate::reduce_scatter).
    ///
    /// # Errors
    /// As the function.
    fn reduce_scatter(&self, mesh_axes: impl MeshAxes, tensor_axis: isize) -> Result<Tensor>;
}

impl TensorOps for Tensor {
    #[track_caller]
    fn add<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::add(self, rhs)
    }
    #[track_caller]
    fn sub<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::sub(self, rhs)
    }
    #[track_caller]
    fn mul<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::mul(self, rhs)
    }
    #[track_caller]
    fn div<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::div(self, rhs)
    }
    #[track_caller]
    fn matmul(&self, rhs: &Tensor) -> Result<Tensor> {
        crate::matmul(self, rhs)
    }
    #[track_caller]
    fn relu(&self) -> Result<Tensor> {
        crate::relu(self)
    }
    #[track_caller]
    fn gelu(&self) -> Result<Tensor> {
        crate::gelu(self)
    }
    #[track_caller]
    fn gelu_tanh(&self) -> Result<Tensor> {
        crate::gelu_tanh(self)
    }
    #[track_caller]
    fn silu(&self) -> Result<Tensor> {
        crate::silu(self)
    }
    #[track_caller]
    fn sigmoid(&self) -> Result<Tensor> {
        crate::sigmoid(self)
    }
    #[track_caller]
    fn tanh(&self) -> Result<Tensor> {
        crate::tanh(self)
    }
    #[track_caller]
    fn erf(&self) -> Result<Tensor> {
        crate::erf(self)
    }
    #[track_caller]
    fn exp(&self) -> Result<Tensor> {
        crate::exp(self)
    }
    #[track_caller]
    fn log(&self) -> Result<Tensor> {
        crate::log(self)
    }
    #[track_caller]
    fn sqrt(&self) -> Result<Tensor> {
        crate::sqrt(self)
    }
    #[track_caller]
    fn rsqrt(&self) -> Result<Tensor> {
        crate::rsqrt(self)
    }
    #[track_caller]
    fn abs(&self) -> Result<Tensor> {
        crate::abs(self)
    }
    #[track_caller]
    fn neg(&self) -> Result<Tensor> {
        crate::neg(self)
    }
    #[track_caller]
    fn eq<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::eq(self, rhs)
    }
    #[track_caller]
    fn ne<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::ne(self, rhs)
    }
    #[track_caller]
    fn lt<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::lt(self, rhs)
    }
    #[track_caller]
    fn le<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::le(self, rhs)
    }
    #[track_caller]
    fn gt<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::gt(self, rhs)
    }
    #[track_caller]
    fn ge<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::ge(self, rhs)
    }
    #[track_caller]
    fn logical_and<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::logical_and(self, rhs)
    }
    #[track_caller]
    fn logical_or<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::logical_or(self, rhs)
    }
    #[track_caller]
    fn logical_xor<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::logical_xor(self, rhs)
    }
    #[track_caller]
    fn logical_not(&self) -> Result<Tensor> {
        crate::logical_not(self)
    }
    #[track_caller]
    fn maximum<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::maximum(self, rhs)
    }
    #[track_caller]
    fn minimum<'a>(&'a self, rhs: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::minimum(self, rhs)
    }
    #[track_caller]
    fn pow<'a>(&'a self, exponent: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::pow(self, exponent)
    }
    #[track_caller]
    fn clamp<'a>(&'a self, low: impl Into<Operand<'a>>, high: impl Into<Operand<'a>>) -> Result<Tensor> {
        crate::clamp(self, low, high)
    }
    #[track_caller]
    fn cast(&self, dtype: DType) -> Result<Tensor> {
        crate::cast(self, dtype)
    }
    #[track_caller]
    fn sum(&self, axis: isize, keepdims: bool) -> Result<Tensor> {
        crate::sum(self, axis, keepdims)
    }
    #[track_caller]
    fn max(&self, axis: isize, keepdims: bool) -> Result<Tensor> {
        crate::max(self, axis, keepdims)
    }
    #[track_caller]
    fn min(&self, axis: isize, keepdims: bool) -> Result<Tensor> {
        crate::min(self, axis, keepdims)
    }
    #[track_caller]
    fn prod(&self, axis: isize, keepdims: bool) -> Result<Tensor> {
        crate::prod(self, axis, keepdims)
    }
    #[track_caller]
    fn mean(&self, axis: isize, keepdims: bool) -> Result<Tensor> {
        crate::mean(self, axis, keepdims)
    }
    #[track_caller]
    fn softmax(&self, axis: isize) -> Result<Tensor> {
        crate::softmax(self, axis)
    }
    #[track_caller]
    fn layer_norm(&self, gamma: &Tensor, beta: &Tensor, eps: f64) -> Result<Tensor> {
        crate::layer_norm(self, gamma, beta, eps)
    }
    #[track_caller]
    fn rms_norm(&self, weight: &Tensor, eps: f64) -> Result<Tensor> {
        crate::rms_norm(self, weight, eps)
    }
    #[track_caller]
    fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        crate::linear(self, weight, bias)
    }
    #[track_caller]
    fn reshape(&self, dims: &[isize]) -> Result<Tensor> {
        crate::reshape(self, dims)
    }
    #[track_caller]
    fn permute(&self, axes: &[isize]) -> Result<Tensor> {
        crate::permute(self, axes)
    }
    #[track_caller]
    fn flatten(&self, start: isize, end: isize) -> Result<Tensor> {
        crate::flatten(self, start, end)
    }
    #[track_caller]
    fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        crate::transpose(self, a, b)
    }
    #[track_caller]
    fn squeeze(&self, axis: isize) -> Result<Tensor> {
        crate::squeeze(self, axis)
    }
    #[track_caller]
    fn unsqueeze(&self, axis: isize) -> Result<Tensor> {
        crate::unsqueeze(self, axis)
    }
    #[track_caller]
    fn broadcast_to(&self, dims: &[usize]) -> Result<Tensor> {
        crate::broadcast_to(self, dims)
    }
    #[track_caller]
    fn flip(&self, axes: &[isize]) -> Result<Tensor> {
        crate::flip(self, axes)
    }
    fn roll(&self, shift: isize, axis: isize) -> Result<Tensor> {
        crate::roll(self, shift, axis)
    }
    fn pad(&self, pads: &[(usize, usize)], value: impl Into<Scalar>) -> Result<Tensor> {
        crate::pad(self, pads, value.into())
    }
    fn tile(&self, repeats: &[usize]) -> Result<Tensor> {
        crate::tile(self, repeats)
    }
    fn repeat(&self, times: usize, axis: isize) -> Result<Tensor> {
        crate::repeat(self, times, axis)
    }
    fn split(&self, sizes: impl Into<SplitSizes>, axis: isize) -> Result<Vec<Tensor>> {
        crate::split(self, sizes.into(), axis)
    }
    #[track_caller]
    fn chunk(&self, chunks: usize, axis: isize) -> Result<Vec<Tensor>> {
        crate::chunk(self, chunks, axis)
    }
    #[track_caller]
    fn slice(&self, indices: &[Index]) -> Result<Tensor> {
        crate::slice(self, indices)
    }
    #[track_caller]
    fn gather(&self, indices: &Tensor, axis: isize) -> Result<Tensor> {
        crate::gather(self, indices, axis)
    }
    #[track_caller]
    fn all_reduce(&self, mesh_axes: impl MeshAxes) -> Result<Tensor> {
        crate::all_reduce(self, mesh_axes)
    }
    #[track_caller]
    fn all_gather(&self, mesh_axes: impl MeshAxes, tensor_axis: isize) -> Result<Tensor> {
        crate::all_gather(self, mesh_axes, tensor_axis)
    }
    #[track_caller]
    fn reduce_scatter(&self, mesh_axes: impl MeshAxes, tensor_axis: isize) -> Result<Tensor> {
        crate::reduce_scatter(self, mesh_axes, tensor_axis)
    }
}
