//! The MLP of a layer: its columns, and the rows that take them up, are split.

use sharding_ops::{Tensor, gelu};

use super::Source;
use super::linear::{ColumnLinear, RowLinear, Shape};
use crate::Result;
use crate::moves::Moves;

/// Two linear layers with a gelu between them.
pub(super) struct Mlp {
    wide: ColumnLinear,
    narrow: RowLinear,
}

impl Mlp {
    pub(super) fn load(source: Source<'_>, name: &str) -> Result<Self> {
        let (hidden, wide) = (source.config.hidden_size, source.config.intermediate_size);
        let [up, down] = ["intermediate.dense", "output.dense"].map(|part| format!("{name}.{part}"));
        let up = Shape { name: &up, inputs: hidden, outputs: wide, parts: wide };
        let down = Shape { name: &down, inputs: wide, outputs: hidden, parts: wide };
        Ok(Self { wide: ColumnLinear::load(source, &up)?, narrow: RowLinear::load(source, &down, "mlp")? })
    }

    pub(super) fn forward(&self, x: &Tensor, moves: &Moves) -> Result<Tensor> {
        self.narrow.forward(&gelu(&self.wide.forward(x)?)?, moves)
    }
}
