//! Linear layers whose weight is split: by columns (each device has some outputs) or by rows (some inputs).
//!
//! A file has the weight as `[output, input]`; it is transposed once, when it is loaded.

use sharding_ops::{Tensor, add, matmul, permute, reshape};

use super::Source;
use crate::Result;
use crate::moves::Moves;

/// Where a linear layer is in the file, and its size.
pub(super) struct Shape<'a> {
    /// The name, to which `.weight` and `.bias` are added.
    pub(super) name: &'a str,
    /// The width of what it is given.
    pub(super) inputs: usize,
    /// The width of what it gives.
    pub(super) outputs: usize,
    /// The parts of the axis that is split, of equal width: a device has whole parts. Heads, or single columns.
    pub(super) parts: usize,
}

/// `x W + b` with the outputs split: from a Replicated input, without communication.
pub(super) struct ColumnLinear {
    /// `[input, output]`.
    weight: Tensor,
    /// `[output]`, split like the outputs.
    bias: Tensor,
}

impl ColumnLinear {
    pub(super) fn load(source: Source<'_>, shape: &Shape<'_>) -> Result<Self> {
        let Shape { name, inputs, outputs, parts } = *shape;
        let width = outputs / parts.max(1);
        let split = source.mappings.split(0)?;
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let weight = source.weights.tensor(&weight, &[outputs, inputs], &[parts, width, inputs], &split)?;
        let bias = source.weights.tensor(&bias, &[outputs], &[parts, width], &split)?;
        Ok(Self {
            weight: reshape(&permute(&weight, &[2, 0, 1])?, &[-1, signed(outputs)])?,
            bias: reshape(&bias, &[-1])?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        add(&matmul(x, &self.weight)?, &self.bias)
    }
}

/// `x W + b` with the inputs split: every device has a part of the sum, which one all_reduce brings together.
pub(super) struct RowLinear {
    /// `[input, output]`.
    weight: Tensor,
    /// `[output]`, Replicated.
    bias: Tensor,
    /// What the record of moves calls it.
    place: &'static str,
}

impl RowLinear {
    pub(super) fn load(source: Source<'_>, shape: &Shape<'_>, place: &'static str) -> Result<Self> {
        let Shape { name, inputs, outputs, parts } = *shape;
        let width = inputs / parts.max(1);
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let split = source.mappings.split(1)?;
        let weight = source.weights.tensor(&weight, &[outputs, inputs], &[outputs, parts, width], &split)?;
        let bias = source.weights.tensor(&bias, &[outputs], &[outputs], &source.mappings.whole())?;
        Ok(Self { weight: reshape(&permute(&weight, &[1, 2, 0])?, &[-1, signed(outputs)])?, bias, place })
    }

    pub(super) fn forward(&self, x: &Tensor, moves: &Moves) -> Result<Tensor> {
        // The bias counts once: it is added to the sum, not to the parts of it.
        add(&moves.reduce(self.place, &matmul(x, &self.weight)?)?, &self.bias)
    }
}

/// An extent as an argument of `reshape`. Extents are at most `isize::MAX` bytes long.
pub(super) fn signed(extent: usize) -> isize {
    isize::try_from(extent).unwrap_or(isize::MAX)
}
