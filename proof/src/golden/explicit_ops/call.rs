//! The ops of the suite that we have.

use super::{Given, spec};
use crate::golden::indices::indices;
use crate::golden::json::{Malformed, Node, Parsed};
use sharding_core::{DType, DeviceMesh, Error, Result, Tensor};
use sharding_ops::{self as ops, TensorOps};

/// Why a call gives nothing.
pub(super) enum No {
    /// We have no such op or form.
    Lacking(String),
    Failed(Error),
    Malformed(Malformed),
}

impl From<Error> for No {
    fn from(error: Error) -> Self {
        No::Failed(error)
    }
}
impl From<Malformed> for No {
    fn from(malformed: Malformed) -> Self {
        No::Malformed(malformed)
    }
}

pub(super) type Made<T> = std::result::Result<T, No>;

/// An op with its plain arguments.
pub(super) struct Call<'a> {
    op: &'a str,
    params: Node<'a>,
}

impl<'a> Call<'a> {
    pub(super) fn read(case: &Node<'a>) -> Parsed<Self> {
        Ok(Self { op: case.field("op")?.text()?, params: case.field("params")? })
    }

    /// The extent that the elements of an input are indices into.
    pub(super) fn indexed(&self, input: usize, before: &[Given]) -> Option<usize> {
        let axis = self.axis().ok().flatten().unwrap_or(0);
        let table = before.first().filter(|_| self.op == "take" && input == 1)?;
        table.layout.shape().axis(axis).ok().map(|axis| table.layout.shape().extent(axis))
    }

    /// Runs it, and lays results out on the mesh as the arguments say; `None` on one device, where there is nothing to lay
    /// out.
    pub(super) fn run(&self, mesh: Option<&DeviceMesh>, inputs: &[Tensor]) -> Made<Vec<Tensor>> {
        let results = self.apply(inputs)?;
        let target = self.params.optional("out_sharding").or_else(|| self.params.optional("to"));
        let (Some(mesh), Some(target)) = (mesh, target) else { return Ok(results) };
        let mapping = spec::mapping(&target, mesh)??;
        Ok(results.iter().map(|result| result.transfer_to(&mapping)).collect::<Result<_>>()?)
    }

    fn apply(&self, inputs: &[Tensor]) -> Made<Vec<Tensor>> {
        let lacking = || Err(No::Lacking(format!("ops that we do not have: {}", self.op)));
        let one = match (self.op, inputs) {
            ("add" | "jnp_add", [x, y]) => x.add(y)?,
            ("sub", [x, y]) => x.sub(y)?,
            ("mul", [x, y]) => x.mul(y)?,
            ("div", [x, y]) => x.div(y)?,
            ("max" | "maximum", [x, y]) => ops::maximum(x, y)?,
            ("min" | "minimum", [x, y]) => ops::minimum(x, y)?,
            ("matmul", [x, y]) => x.matmul(y)?,
            ("where", [which, x, y]) => ops::where_(which, x, y)?,
            // The cases are in the order of `false` and `true`.
            ("select_n", [which, no, yes]) => ops::where_(which, yes, no)?,
            ("clamp", [x, low, high]) => ops::clamp(x, low, high)?,
            ("exp", [x]) => x.exp()?,
            ("neg", [x]) => x.neg()?,
            ("abs", [x]) => x.abs()?,
            ("tanh", [x]) => x.tanh()?,
            ("softmax", [x]) => x.softmax(self.axis()?.unwrap_or(-1))?,
            // The suite does not say to what; placements do not depend on it.
            ("convert", [x]) => x.cast(DType::F64)?,
            ("sum" | "reduce_sum" | "max" | "min" | "mean" | "prod", [x]) => self.reduce(x)?,
            ("transpose", [x]) => {
                match self.params.optional("axes").or(self.params.optional("permutation")) {
                    Some(axes) => x.permute(&axes.list_of(axis)?)?,
                    None => x.permute(&(0..x.shape().len() as isize).rev().collect::<Vec<_>>())?,
                }
            }
            ("squeeze", [x]) => match self.axis()? {
                Some(axis) => x.squeeze(axis)?,
                None => return lacking(),
            },
            ("expand_dims", [x]) => match self.axis()? {
                Some(axis) => x.unsqueeze(axis)?,
                None => return lacking(),
            },
            ("reshape", [x]) => x.reshape(&self.params.field("new_shape")?.list_of(axis)?)?,
            ("broadcast_to", [x]) => x.broadcast_to(&self.params.field("shape")?.list_of(Node::size)?)?,
            ("concatenate", _) => ops::concat(inputs, self.axis()?.unwrap_or(0))?,
            ("stack", _) => ops::stack(inputs, self.axis()?.unwrap_or(0))?,
            ("split", [x]) => {
                let sections = self.params.field("sections")?;
                if !sections.value().is_u64() {
                    return lacking();
                }
                return Ok(ops::chunk(x, sections.size()?, self.axis()?.unwrap_or(0))?);
            }
            ("slice" | "index_int" | "index_int_out", [x]) => {
                let node = self.params.field("index")?;
                let inside = node.text()?.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
                ops::slice(x, &indices(inside.ok_or_else(|| node.expected("[..]"))?, &node)?)?
            }
            ("flip", [x]) => match self.axis()? {
                Some(axis) => x.flip(&[axis])?,
                None => return lacking(),
            },
            // Without an axis that is the only one; ours does not flatten.
            ("roll", [x]) => match (self.axis()?, x.shape().len()) {
                (Some(axis), _) => x.roll(self::axis(&self.params.field("shift")?)?, axis)?,
                (None, 1) => x.roll(self::axis(&self.params.field("shift")?)?, 0)?,
                (None, _) => return lacking(),
            },
            ("pad", [x]) => {
                let pairs =
                    self.params.field("pad")?.list_of(|pair| match pair.list_of(Node::size)?[..] {
                        [before, behind] => Ok((before, behind)),
                        _ => Err(pair.expected("two sizes")),
                    })?;
                x.pad(&pairs, 0_i64)?
            }
            ("take", [x, indices]) => match self.axis()? {
                Some(axis) => ops::gather(x, indices, axis)?,
                None => return lacking(),
            },
            ("reshard", [x]) => x.clone(),
            _ => return lacking(),
        };
        Ok(vec![one])
    }

    fn axis(&self) -> Parsed<Option<isize>> {
        self.params.optional("axis").map(|node| axis(&node)).transpose()
    }

    /// Over one axis, or all of them.
    fn reduce(&self, x: &Tensor) -> Made<Tensor> {
        let keep = self.params.optional("keepdims").map_or(Ok(false), |keep| keep.truth())?;
        let mut axes: Vec<isize> = match self.params.optional("axis") {
            Some(node) if node.value().is_array() => node.list_of(axis)?,
            Some(node) => vec![axis(&node)?],
            None => (0..x.shape().len() as isize).collect(),
        };
        axes.sort_unstable();
        let mut made = x.clone();
        for axis in axes.into_iter().rev() {
            made = match self.op {
                "sum" | "reduce_sum" => made.sum(axis, keep)?,
                "max" => made.max(axis, keep)?,
                "min" => made.min(axis, keep)?,
                "mean" => made.mean(axis, keep)?,
                _ => made.prod(axis, keep)?,
            };
        }
        Ok(made)
    }
}

fn axis(node: &Node<'_>) -> Parsed<isize> {
    isize::try_from(node.integer()?).map_err(|_| node.expected("an axis"))
}
