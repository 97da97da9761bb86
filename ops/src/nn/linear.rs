//! The linear layer, split by outputs or by inputs.

use super::{NamedTensors, Parallel};
use crate::{LeafOps, all_reduce, linear};
use sharding_core::state::Init;
use sharding_core::{DeviceMapping, Error, ErrorKind, Result, Shape, ShardedState, Tensor};

/// Which axis of a linear layer's weight `[out, in]` is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinearSplit {
    /// The outputs, column-parallel: weight `Sharded(0)`, bias `Sharded(0)`. From a Replicated input without
    /// communication; the result is split along its last axis.
    Column,
    /// The inputs, row-parallel: weight `Sharded(1)`, bias Replicated. From an input that is split along its last axis;
    /// each device has a part of the sum.
    Row,
    /// Neither.
    #[default]
    Replicated,
}

/// `x W^T + b`, with `W` as `[out, in]`.
///
/// The placements of its tensors say how it is split: see [`LinearSplit`]. Where the inputs are split, the sum over devices
/// is one all_reduce, or is left Partial (`reduce: false`) for who adds up more first. The bias counts once either way.
///
/// ```
/// use sharding_ops::nn::Linear;
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let whole = DeviceMapping::replicated(&mesh);
/// let weight = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &DeviceMapping::new(&mesh, [Sharded(1)])?)?;
/// let bias = Tensor::from_slice(&[10.0_f32, 20.0], [2], &whole)?;
/// let row = Linear { weight, bias: Some(bias), reduce: true };
/// let x = Tensor::from_slice(&[1.0_f32, 1.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(row.forward(&x)?.to_vec::<f32>()?, [13.0, 27.0]);
///
/// let parts = Linear { reduce: false, ..row }.forward(&x)?;
/// assert_eq!(parts.layout().places(), [Partial(ReduceOp::Sum)]);
/// assert_eq!(parts.to_vec::<f32>()?, [13.0, 27.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
#[derive(Clone, Debug, ShardedState)]
pub struct Linear {
    /// `[out, in]`.
    #[sharding(placed)]
    pub weight: Tensor,
    /// `[out]`; placed as the outputs of the weight are.
    #[sharding(placed)]
    pub bias: Option<Tensor>,
    /// Whether parts of a sum that come from a split of the inputs are added up. If not, the result is Partial.
    #[sharding(skip)]
    pub reduce: bool,
}

impl Linear {
    /// Loads `NAME.weight` and, if it is there, `NAME.bias`.
    ///
    /// # Errors
    /// If the weight is not there or no matrix, or the bias is not `[out]`; else what the source says.
    pub fn load(
        source: &impl NamedTensors,
        name: &str,
        parallel: &Parallel,
        split: LinearSplit,
    ) -> Result<Self> {
        Self::load_units(source, name, parallel, split, 1)
    }

    /// [`Linear::load`] with the split axis in whole units of `unit` indices, such as the elements of a head.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if the axis is no number of whole units, else as [`Linear::load`].
    pub fn load_units(
        source: &impl NamedTensors,
        name: &str,
        parallel: &Parallel,
        split: LinearSplit,
        unit: usize,
    ) -> Result<Self> {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let shape = source.meta(&weight)?.shape;
        let located = |error: Error| error.with_op("Linear").with_operands([format!("{weight}: {shape}")]);
        let [of_weight, of_bias] = Self::mappings(&shape, parallel, split, unit).map_err(located)?;
        let bias = match source.contains(&bias) {
            true => {
                let extents = source.meta(&bias)?.shape;
                if extents.len() != 1 || extents.first() != shape.first() {
                    return Err(located(
                        Error::new(ErrorKind::Shape, format!("the bias '{bias}' is {extents}"))
                            .with_fix("give the bias one element per output, the first extent of the weight"),
                    ));
                }
                Some(source.tensor(&bias, &of_bias)?)
            }
            false => None,
        };
        Ok(Self { weight: source.tensor(&weight, &of_weight)?, bias, reduce: true })
    }

    /// A layer whose weight and bias are uniform in `±1 / sqrt(in)`, as PyTorch's; or, where the state is loaded, those of
    /// the source. The bias is there unless a source has none.
    ///
    /// # Errors
    /// As [`Leaf::build`](sharding_core::state::Leaf::build).
    pub fn init(
        init: &Init<'_, Self>,
        [outputs, inputs]: [usize; 2],
        parallel: &Parallel,
        split: LinearSplit,
    ) -> Result<Self> {
        Self::init_units(init, [outputs, inputs], parallel, split, 1)
    }

    /// [`Linear::init`] with the split axis in whole units of `unit` indices, such as the elements of a head.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if the axis is no number of whole units, else as [`Linear::init`].
    pub fn init_units(
        init: &Init<'_, Self>,
        [outputs, inputs]: [usize; 2],
        parallel: &Parallel,
        split: LinearSplit,
        unit: usize,
    ) -> Result<Self> {
        let shape = Shape::from([outputs, inputs]);
        let [of_weight, of_bias] = Self::mappings(&shape, parallel, split, unit).map_err(|error| {
            error.with_op("Linear").with_operands([format!("{}: {shape}", init.weight.name())])
        })?;
        // A layer without inputs has no weights to bound.
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        let bias =
            init.bias.is_there().then(|| init.bias.shape([outputs]).mapping(&of_bias).uniform(-bound..bound));
        let weight = init.weight.shape(shape).mapping(&of_weight).uniform(-bound..bound)?;
        Ok(Self { weight, bias: bias.transpose()?, reduce: true })
    }

    /// The mappings of a weight of the shape `[out, in]` and of its bias.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if the shape is no matrix's, or the split axis no number of whole units.
    pub fn mappings(
        shape: &Shape,
        parallel: &Parallel,
        split: LinearSplit,
        unit: usize,
    ) -> Result<[DeviceMapping; 2]> {
        let [outputs, inputs] = **shape else {
            return Err(Error::new(ErrorKind::Shape, "the weight of a linear layer is a matrix")
                .with_fix("store it as [out, in]"));
        };
        let whole = parallel.whole();
        Ok(match split {
            LinearSplit::Column => [parallel.split(0, outputs, unit)?, parallel.split(0, outputs, unit)?],
            LinearSplit::Row => [parallel.split(1, inputs, unit)?, whole],
            LinearSplit::Replicated => [whole.clone(), whole],
        })
    }

    /// `[.., in]` to `[.., out]`.
    ///
    /// # Errors
    /// As [`linear`](fn@crate::linear) and [`all_reduce`](fn@crate::all_reduce).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = linear(x, &self.weight, self.bias.as_ref())?;
        if self.reduce { reduced(&y, &self.weight, 1) } else { Ok(y) }
    }
}

/// Adds up the parts on the mesh axes where an axis of the weight is split.
pub(super) fn reduced(y: &Tensor, weight: &Tensor, tensor_axis: usize) -> Result<Tensor> {
    let split = |axis: &usize| {
        y.mapping().place(*axis).is_partial()
            && weight.mapping().place(*axis).tensor_axis() == Some(tensor_axis)
    };
    let axes: Vec<usize> = (0..y.mesh().ndim()).filter(split).collect();
    if axes.is_empty() {
        return Ok(y.clone());
    }
    all_reduce(y, &axes[..])
}
