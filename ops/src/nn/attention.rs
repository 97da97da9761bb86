//! Self-attention, split by heads.

use super::{Linear, LinearSplit, NamedTensors, Parallel};
use crate::{reshape, scaled_dot_product_attention, transpose};
use sharding_core::state::Init;
use sharding_core::{Error, ErrorKind, Result, Shape, ShardedState, Tensor};

/// The number of heads of an [`Attention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Heads of queries.
    pub query: usize,
    /// Heads of keys and values; each serves `query / key_value` neighbouring heads of queries.
    pub key_value: usize,
}

impl Heads {
    /// As many heads of keys and values as of queries.
    pub const fn equal(heads: usize) -> Self {
        Self { query: heads, key_value: heads }
    }

    /// The heads of queries that one head of keys and values serves.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if that is no whole number of at least 1.
    pub fn group(self) -> Result<usize> {
        match self.query.checked_rem(self.key_value) {
            Some(0) if self.query > 0 => Ok(self.query / self.key_value),
            _ => Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "{} heads of queries cannot share {} heads of keys and values evenly",
                    self.query, self.key_value
                ),
            )
            .with_fix("let the heads of queries be a multiple of those of keys and values")),
        }
    }
}

/// Multi-head attention of a sequence with itself (Vaswani et al., Attention Is All You Need, 2017), also with fewer heads of
/// keys and values than of queries (Ainslie et al., GQA, 2023).
///
/// Query, key and value are column-parallel in whole heads, the output row-parallel: every device computes its own heads
/// (12 over 5 devices: 3, 3, 2, 2, 2), and one all_reduce brings them together. Heads of queries stay with the head of keys and
/// values that serves them, so devices beyond those have nothing to do; a single head of keys and values is computed on
/// every device instead, and a single head of queries is not split at all.
///
/// ```
/// use sharding_ops::nn::{Attention, Heads, Parallel};
/// use sharding_ops::*;
/// use std::collections::HashMap;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let whole = DeviceMapping::replicated(&mesh);
/// let identity = [1.0_f32, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
/// let names = ["q", "k", "v", "o"];
/// let weights: HashMap<String, Tensor> = names
///     .iter()
///     .map(|name| Ok((format!("{name}.weight"), Tensor::from_slice(&identity, [3, 3], &whole)?)))
///     .collect::<Result<_>>()?;
/// // Three heads of one element over two devices: two and one.
/// let attention = Attention::load(&weights, names, &Parallel::along(&mesh, "tp")?, Heads::equal(3))?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [1, 1, 3], &whole)?;
/// // One token attends to itself.
/// assert_eq!(attention.forward(&x, None)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
#[derive(Clone, Debug, ShardedState)]
pub struct Attention {
    /// `[query heads * head, width]`.
    pub query: Linear,
    /// `[key and value heads * head, width]`.
    pub key: Linear,
    /// `[key and value heads * head, width]`.
    pub value: Linear,
    /// `[width, query heads * head]`.
    pub output: Linear,
    /// How many heads there are.
    #[sharding(skip)]
    pub heads: Heads,
    /// Whether a token attends only to itself and those before it.
    #[sharding(skip)]
    pub causal: bool,
}

impl Attention {
    /// Loads the linear layers of these names: query, key, value and output. The layer is not causal.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] or [`ErrorKind::Shape`] if the heads do not fit each other or the weights, else as
    /// [`Linear::load`].
    pub fn load(
        source: &impl NamedTensors,
        [query, key, value, output]: [&str; 4],
        parallel: &Parallel,
        heads: Heads,
    ) -> Result<Self> {
        let group = heads.group().map_err(|error| error.with_op("Attention"))?;
        let weight = format!("{query}.weight");
        let shape = source.meta(&weight)?.shape;
        let head = head_size(&shape, heads)
            .map_err(|error| error.with_op("Attention").with_operands([format!("{weight}: {shape}")]))?;
        let Splits { unit, queries, others, last } = Splits::of(heads, group, head);
        Ok(Self {
            query: Linear::load_units(source, query, parallel, queries, unit)?,
            key: Linear::load_units(source, key, parallel, others, head)?,
            value: Linear::load_units(source, value, parallel, others, head)?,
            output: Linear::load_units(source, output, parallel, last, unit)?,
            heads,
            causal: false,
        })
    }

    /// The layers of [`Linear::init`], for heads of `head` elements each. The layer is not causal.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if the heads do not fit each other, else as [`Linear::init`].
    pub fn init(
        init: &Init<'_, Self>,
        width: usize,
        parallel: &Parallel,
        heads: Heads,
        head: usize,
    ) -> Result<Self> {
        let group = heads.group().map_err(|error| error.with_op("Attention"))?;
        let Splits { unit, queries, others, last } = Splits::of(heads, group, head);
        let [inner, outer] = [heads.query, heads.key_value].map(|heads| heads.saturating_mul(head));
        Ok(Self {
            query: Linear::init_units(&init.query, [inner, width], parallel, queries, unit)?,
            key: Linear::init_units(&init.key, [outer, width], parallel, others, head)?,
            value: Linear::init_units(&init.value, [outer, width], parallel, others, head)?,
            output: Linear::init_units(&init.output, [width, inner], parallel, last, unit)?,
            heads,
            causal: false,
        })
    }

    /// `[.., token, width]` to the same. The `mask` broadcasts to `[.., head, token, token]`, the last axis being the one that
    /// is attended to: truth values, true where a token may, or numbers that are added to the scores.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if `x` has fewer than two axes or the heads do not fit the weights, else as
    /// [`scaled_dot_product_attention`](fn@crate::scaled_dot_product_attention).
    pub fn forward(&self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let located = |error: Error| error.with_op("Attention").with_operands([format!("x: {}", x.layout())]);
        self.heads.group().map_err(located)?;
        if x.shape().len() < 2 {
            return Err(located(
                Error::new(ErrorKind::Shape, format!("x {} has no axis of tokens", x.shape()))
                    .with_fix("unsqueeze(&x, 0) is a sequence of one token"),
            ));
        }
        let head = head_size(self.query.weight.shape(), self.heads).map_err(located)?;
        let Heads { query, key_value } = self.heads;
        let queries = by_head(&self.query.forward(x)?, query, head)?;
        let keys = by_head(&self.key.forward(x)?, key_value, head)?;
        let values = by_head(&self.value.forward(x)?, key_value, head)?;
        let mixed = scaled_dot_product_attention(&queries, &keys, &values, mask, self.causal, None)?;
        // Heads side by side again.
        let mixed = swapped(&mixed)?;
        let mut dims = signed(mixed.shape());
        dims.truncate(dims.len().saturating_sub(2));
        dims.push((query * head) as isize);
        self.output.forward(&reshape(&mixed, &dims)?)
    }
}

/// How the linear layers are split, so that no head is cut.
struct Splits {
    /// The indices of queries that stay together.
    unit: usize,
    queries: LinearSplit,
    /// Keys and values.
    others: LinearSplit,
    /// The output.
    last: LinearSplit,
}

impl Splits {
    fn of(heads: Heads, group: usize, head: usize) -> Self {
        let (unit, queries, others) = match heads {
            Heads { query: 1, .. } => (head, LinearSplit::Replicated, LinearSplit::Replicated),
            Heads { key_value: 1, .. } => (head, LinearSplit::Column, LinearSplit::Replicated),
            _ => (group * head, LinearSplit::Column, LinearSplit::Column),
        };
        let last = if queries == LinearSplit::Column { LinearSplit::Row } else { queries };
        Self { unit, queries, others, last }
    }
}

/// The width of one head, by the weight of the queries `[heads * head, width]`.
fn head_size(shape: &Shape, heads: Heads) -> Result<usize> {
    match shape.first() {
        Some(outputs) if outputs.is_multiple_of(heads.query) => Ok(outputs / heads.query.max(1)),
        _ => Err(Error::new(ErrorKind::Shape, format!("the outputs are no number of {} heads", heads.query))
            .with_fix("use the number of heads that the weights were made for")),
    }
}

/// `[.., token, heads * head]` to `[.., head, token, component]`.
fn by_head(x: &Tensor, heads: usize, head: usize) -> Result<Tensor> {
    let mut dims = signed(x.shape());
    dims.pop();
    dims.extend([heads as isize, head as isize]);
    swapped(&reshape(x, &dims)?)
}

/// The last two axes before the components, heads and tokens, swapped.
fn swapped(x: &Tensor) -> Result<Tensor> {
    transpose(x, -3, -2)
}

/// The extents as arguments of `reshape`. Extents are at most `isize::MAX` bytes long.
fn signed(shape: &Shape) -> Vec<isize> {
    shape.iter().map(|extent| *extent as isize).collect()
}
