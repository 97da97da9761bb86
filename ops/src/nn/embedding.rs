//! The embedding table, split by vocabulary or by width.

use super::linear::reduced;
use super::{NamedTensors, Parallel};
use crate::{LeafOps, embedding};
use sharding_core::state::Init;
use sharding_core::{DeviceMapping, Error, ErrorKind, Result, Shape, ShardedState, Tensor};

/// Which axis of an embedding table `[vocabulary, width]` is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableSplit {
    /// The vocabulary: weight `Sharded(0)`. A device knows its own rows and has zeros for others; one all_reduce adds up.
    Vocabulary,
    /// The width: weight `Sharded(1)`. Without communication; the result is split along its last axis.
    Hidden,
    /// Neither.
    #[default]
    Replicated,
}

/// Rows of a table by index; see [`TableSplit`] for how it may lie.
///
/// ```
/// use sharding_ops::nn::Embedding;
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let table = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], [3, 2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// let words = Embedding { weight: table, reduce: true };
/// let ids = Tensor::from_slice(&[2_i64, 0], [2], &DeviceMapping::replicated(&mesh))?;
/// let rows = words.forward(&ids)?; // one all_reduce
/// assert_eq!(rows.layout().places(), [Replicated]);
/// assert_eq!(rows.to_vec::<f32>()?, [4.0, 5.0, 0.0, 1.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
#[derive(Clone, Debug, ShardedState)]
pub struct Embedding {
    /// `[vocabulary, width]`.
    #[sharding(placed)]
    pub weight: Tensor,
    /// Whether parts that come from a split of the vocabulary are added up. If not, the result is Partial.
    #[sharding(skip)]
    pub reduce: bool,
}

impl Embedding {
    /// Loads `NAME.weight`.
    ///
    /// # Errors
    /// If it is not there or no matrix, else what the source says.
    pub fn load(
        source: &impl NamedTensors,
        name: &str,
        parallel: &Parallel,
        split: TableSplit,
    ) -> Result<Self> {
        let weight = format!("{name}.weight");
        let shape = source.meta(&weight)?.shape;
        let mapping = Self::mapping(&shape, parallel, split)
            .map_err(|error| error.with_op("Embedding").with_operands([format!("{weight}: {shape}")]))?;
        Ok(Self { weight: source.tensor(&weight, &mapping)?, reduce: true })
    }

    /// A table of numbers of the standard normal distribution, as PyTorch's; or, where the state is loaded, that of the source.
    ///
    /// # Errors
    /// As [`Leaf::build`](sharding_core::state::Leaf::build).
    pub fn init(
        init: &Init<'_, Self>,
        [vocabulary, width]: [usize; 2],
        parallel: &Parallel,
        split: TableSplit,
    ) -> Result<Self> {
        let shape = Shape::from([vocabulary, width]);
        let mapping = Self::mapping(&shape, parallel, split)?;
        Ok(Self { weight: init.weight.shape(shape).mapping(&mapping).normal(0.0, 1.0)?, reduce: true })
    }

    /// The mapping of a table of the shape `[vocabulary, width]`.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if the shape is no matrix's.
    pub fn mapping(shape: &Shape, parallel: &Parallel, split: TableSplit) -> Result<DeviceMapping> {
        let [rows, width] = **shape else {
            return Err(Error::new(ErrorKind::Shape, "an embedding table is a matrix")
                .with_fix("store it as [vocabulary, width]"));
        };
        match split {
            TableSplit::Vocabulary => parallel.split(0, rows, 1),
            TableSplit::Hidden => parallel.split(1, width, 1),
            TableSplit::Replicated => Ok(parallel.whole()),
        }
    }

    /// Indices `[i..]`, i64 in `0..vocabulary`, to rows `[i.., width]`.
    ///
    /// # Errors
    /// As [`embedding`](fn@crate::embedding) and [`all_reduce`](fn@crate::all_reduce).
    pub fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        let rows = embedding(&self.weight, indices)?;
        if self.reduce { reduced(&rows, &self.weight, 0) } else { Ok(rows) }
    }
}
