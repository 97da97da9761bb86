//! Self-attention, split by heads.

use sharding_ops::{Tensor, add, matmul, mul, permute, reshape, softmax};

use super::Source;
use super::linear::{ColumnLinear, RowLinear, Shape, signed};
use crate::Result;
use crate::moves::Moves;

/// The attention of one layer; every device has whole heads.
pub(super) struct Attention {
    query: ColumnLinear,
    key: ColumnLinear,
    value: ColumnLinear,
    output: RowLinear,
    heads: usize,
    head_size: usize,
}

impl Attention {
    pub(super) fn load(source: Source<'_>, name: &str) -> Result<Self> {
        let config = source.config;
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        let of = |part: &str| format!("{name}.{part}");
        let column = |part: &str| {
            let name = &of(part);
            ColumnLinear::load(source, &Shape { name, inputs: hidden, outputs: hidden, parts: heads })
        };
        let name = &of("output.dense");
        let output = Shape { name, inputs: hidden, outputs: hidden, parts: heads };
        Ok(Self {
            query: column("self.query")?,
            key: column("self.key")?,
            value: column("self.value")?,
            output: RowLinear::load(source, &output, "attention")?,
            heads,
            head_size: config.head_size(),
        })
    }

    /// `[sentence, token, hidden]` to the same; `bias` is added to the scores.
    pub(super) fn forward(&self, x: &Tensor, bias: &Tensor, moves: &Moves) -> Result<Tensor> {
        let query = self.by_head(&self.query.forward(x)?, &[0, 2, 1, 3])?;
        let key = self.by_head(&self.key.forward(x)?, &[0, 2, 3, 1])?;
        let value = self.by_head(&self.value.forward(x)?, &[0, 2, 1, 3])?;
        // The scores of n components grow with the square root of n.
        let query = mul(&query, 1.0 / (self.head_size as f64).sqrt())?;
        let scores = add(&matmul(&query, &key)?, bias)?;
        let mixed = matmul(&softmax(&scores, -1)?, &value)?;
        self.output.forward(&self.joined(&mixed)?, moves)
    }

    /// `[sentence, token, hidden]` with its heads apart, `[sentence, token, head, component]`, in another order.
    fn by_head(&self, x: &Tensor, order: &[isize; 4]) -> Result<Tensor> {
        let [sentences, tokens] = extents(x, [0, 1]);
        permute(&reshape(x, &[sentences, tokens, signed(self.heads), signed(self.head_size)])?, order)
    }

    /// `[sentence, head, token, component]` to `[sentence, token, hidden]`.
    fn joined(&self, x: &Tensor) -> Result<Tensor> {
        let [sentences, tokens] = extents(x, [0, 2]);
        let hidden = signed(self.heads * self.head_size);
        reshape(&permute(x, &[0, 2, 1, 3])?, &[sentences, tokens, hidden])
    }
}

fn extents<const N: usize>(x: &Tensor, axes: [usize; N]) -> [isize; N] {
    axes.map(|axis| x.shape().get(axis).map_or(0, |extent| signed(*extent)))
}
