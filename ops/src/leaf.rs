//! Makers of a state's tensors.

use crate::{bernoulli, full, normal, uniform};
use sharding_core::state::Leaf;
use sharding_core::{DType, Result, Scalar, Tensor};
use std::ops::Range;

/// What makes a tensor of a state: the ops that make tensors, with the shape, dtype, mapping and key that the
/// [`Leaf`] knows.
///
/// Where the state is abstract nothing is made, and where it is loaded the tensor is read instead: see
/// [`state`](sharding_core::state).
///
/// ```
/// use sharding_ops::state::Init;
/// use sharding_ops::*;
///
/// #[derive(ShardedState)]
/// #[sharding(crate = sharding_ops)]
/// struct Linear {
///     #[sharding("tp", None)]
///     weight: Tensor,
///     #[sharding("tp")]
///     bias: Tensor,
/// }
/// impl Linear {
///     fn new(init: &Init<Self>, outputs: usize, inputs: usize) -> Result<Self> {
///         let bound = 1.0 / (inputs as f64).sqrt();
///         Ok(Self {
///             weight: init.weight.shape([outputs, inputs]).uniform(-bound..bound)?,
///             bias: init.bias.shape([outputs]).zeros()?,
///         })
///     }
/// }
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let linear = eager_sharded_init::<Linear>(&mesh, 42, |init| Linear::new(init, 4, 3))?;
/// assert_eq!(linear.weight.layout().places(), [Sharded(0)]);
/// // The same numbers, on four devices.
/// let wider = DeviceMesh::simulated(BackendKind::CPU, [4], ["tp"])?;
/// let wider = eager_sharded_init::<Linear>(&wider, 42, |init| Linear::new(init, 4, 3))?;
/// assert_eq!(wider.weight.to_vec::<f32>()?, linear.weight.to_vec::<f32>()?);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
pub trait LeafOps {
    /// [`uniform`](fn@uniform) numbers in a range, of the leaf's own key.
    ///
    /// # Errors
    /// As [`Leaf::build`] and the op.
    fn uniform(&self, range: Range<f64>) -> Result<Tensor>;
    /// [`normal`](fn@normal) numbers, of the leaf's own key.
    ///
    /// # Errors
    /// As [`Leaf::build`] and the op.
    fn normal(&self, mean: f64, std: f64) -> Result<Tensor>;
    /// [`bernoulli`](fn@bernoulli) truth values, of the leaf's own key; the dtype is bool.
    ///
    /// # Errors
    /// As [`Leaf::build`] and the op.
    fn bernoulli(&self, p: f64) -> Result<Tensor>;
    /// One value; see [`full`](fn@full).
    ///
    /// # Errors
    /// As [`Leaf::build`] and the op.
    fn full(&self, value: impl Into<Scalar>) -> Result<Tensor>;
    /// Zeros.
    ///
    /// # Errors
    /// As [`Leaf::build`].
    fn zeros(&self) -> Result<Tensor>;
    /// Ones.
    ///
    /// # Errors
    /// As [`Leaf::build`].
    fn ones(&self) -> Result<Tensor>;
}

impl LeafOps for Leaf<'_> {
    fn uniform(&self, range: Range<f64>) -> Result<Tensor> {
        self.build(|layout, key| {
            uniform(layout.shape().clone(), range, key, layout.dtype(), layout.mapping())
        })
    }
    fn normal(&self, mean: f64, std: f64) -> Result<Tensor> {
        self.build(|layout, key| {
            normal(layout.shape().clone(), mean, std, key, layout.dtype(), layout.mapping())
        })
    }
    fn bernoulli(&self, p: f64) -> Result<Tensor> {
        self.dtype(DType::Bool)
            .build(|layout, key| bernoulli(layout.shape().clone(), p, key, layout.mapping()))
    }
    fn full(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        let value = value.into();
        self.build(|layout, _| full(layout.shape().clone(), value, layout.dtype(), layout.mapping()))
    }
    fn zeros(&self) -> Result<Tensor> {
        self.build(|layout, _| crate::zeros(layout.shape().clone(), layout.dtype(), layout.mapping()))
    }
    fn ones(&self) -> Result<Tensor> {
        self.build(|layout, _| crate::ones(layout.shape().clone(), layout.dtype(), layout.mapping()))
    }
}
