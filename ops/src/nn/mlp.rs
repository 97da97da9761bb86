//! The two or three linear layers of a transformer's MLP.

use super::{Linear, LinearSplit, NamedTensors, Parallel};
use crate::{gelu, gelu_tanh, mul, relu, silu};
use sharding_core::state::Init;
use sharding_core::{Result, ShardedState, Tensor};

/// The function between the layers of an [`Mlp`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// [`gelu`](fn@crate::gelu).
    #[default]
    Gelu,
    /// [`gelu_tanh`](fn@crate::gelu_tanh).
    GeluTanh,
    /// [`relu`](fn@crate::relu).
    Relu,
    /// [`silu`](fn@crate::silu).
    Silu,
}

impl Activation {
    /// The function.
    ///
    /// # Errors
    /// As the op of its name.
    pub fn apply(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Gelu => gelu(x),
            Self::GeluTanh => gelu_tanh(x),
            Self::Relu => relu(x),
            Self::Silu => silu(x),
        }
    }
}

/// `down(f(up(x)))` or, with a gate, `down(f(gate(x)) * up(x))` (Shazeer, GLU Variants Improve Transformer, 2020).
///
/// Up and gate are column-parallel, down row-parallel: one all_reduce.
///
/// ```
/// use sharding_ops::nn::{Activation, Linear, Mlp};
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let weight = |values: &[f32], shape: [usize; 2], axis| Tensor::from_slice(values, shape, &DeviceMapping::new(&mesh, [Sharded(axis)])?);
/// let linear = |weight| Linear { weight, bias: None, reduce: true };
/// let mlp = Mlp {
///     up: linear(weight(&[1.0, -1.0, 2.0], [3, 1], 0)?),
///     gate: None,
///     down: linear(weight(&[1.0, 1.0, 1.0], [1, 3], 1)?),
///     activation: Activation::Relu,
/// };
/// let x = Tensor::from_slice(&[2.0_f32], [1, 1], &DeviceMapping::replicated(&mesh))?;
/// assert_eq!(mlp.forward(&x)?.to_vec::<f32>()?, [6.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
#[derive(Clone, Debug, ShardedState)]
pub struct Mlp {
    /// `[wide, width]`.
    pub up: Linear,
    /// `[wide, width]`, whose function multiplies what `up` gives.
    pub gate: Option<Linear>,
    /// `[width, wide]`.
    pub down: Linear,
    /// The function in between.
    #[sharding(skip)]
    pub activation: Activation,
}

impl Mlp {
    /// Loads the layers of these names.
    ///
    /// # Errors
    /// As [`Linear::load`].
    pub fn load(
        source: &impl NamedTensors,
        up: &str,
        gate: Option<&str>,
        down: &str,
        parallel: &Parallel,
        activation: Activation,
    ) -> Result<Self> {
        let column = |name: &str| Linear::load(source, name, parallel, LinearSplit::Column);
        Ok(Self {
            up: column(up)?,
            gate: gate.map(column).transpose()?,
            down: Linear::load(source, down, parallel, LinearSplit::Row)?,
            activation,
        })
    }

    /// The layers of [`Linear::init`] from `width` to `wide` and back.
    ///
    /// # Errors
    /// As [`Linear::init`].
    pub fn init(
        init: &Init<'_, Self>,
        [width, wide]: [usize; 2],
        gated: bool,
        parallel: &Parallel,
        activation: Activation,
    ) -> Result<Self> {
        let column =
            |init: &Init<'_, Linear>| Linear::init(init, [wide, width], parallel, LinearSplit::Column);
        Ok(Self {
            up: column(&init.up)?,
            gate: gated.then(|| column(&init.gate)).transpose()?,
            down: Linear::init(&init.down, [width, wide], parallel, LinearSplit::Row)?,
            activation,
        })
    }

    /// `[.., width]` to the same.
    ///
    /// # Errors
    /// As [`Linear::forward`] and the activation.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let up = self.up.forward(x)?;
        let wide = match &self.gate {
            None => self.activation.apply(&up)?,
            Some(gate) => mul(&self.activation.apply(&gate.forward(x)?)?, &up)?,
        };
        self.down.forward(&wide)
    }
}
