//! One collective by name.

use super::super::json::{Node, Parsed};
use sharding_core::manual::{ManualCx, Over};
use sharding_core::{DType, DeviceMapping, Result, Scalar, Tensor};
use sharding_ops::{TensorOps, full};

/// A call with its parameters.
pub(super) struct Call {
    over: Over,
    what: What,
}

enum What {
    Sum,
    Max,
    Min,
    Mean,
    Gather { axis: isize, tiled: bool },
    Scatter { axis: isize, tiled: bool },
    AllToAll { split: isize, concat: isize, tiled: bool },
    Permute(Vec<(usize, usize)>),
    Shuffle(Vec<usize>),
    Index,
    Size,
}

impl Call {
    /// `None` for a name that we do not know.
    pub(super) fn read(case: &Node<'_>) -> Parsed<Option<Self>> {
        let params = case.field("params")?;
        let axis = |name: &str| {
            let node = params.field(name)?;
            isize::try_from(node.integer()?).map_err(|_| node.expected("a tensor axis"))
        };
        let tiled = || params.optional("tiled").map_or(Ok(false), |node| node.truth());
        let op = case.field("op")?;
        let what = match op.text()? {
            "psum" | "psum_grouped" => What::Sum,
            "pmax" => What::Max,
            "pmin" => What::Min,
            "pmean" => What::Mean,
            "all_gather" => What::Gather { axis: axis("dim")?, tiled: tiled()? },
            "psum_scatter" => What::Scatter { axis: axis("dim")?, tiled: tiled()? },
            "all_to_all" => {
                What::AllToAll { split: axis("split_dim")?, concat: axis("concat_dim")?, tiled: tiled()? }
            }
            "ppermute" => What::Permute(params.field("perm")?.list_of(pair)?),
            "pshuffle" => What::Shuffle(params.field("perm")?.list_of(Node::size)?),
            "axis_index" => What::Index,
            "axis_size" => What::Size,
            _ => return Ok(None),
        };
        let axes = params.field("axis")?;
        let over = match axes.value().as_str() {
            Some(name) => Over::from(name),
            None => Over::from(axes.list_of(Node::text)?.as_slice()),
        };
        let over = match params.optional("axis_index_groups") {
            Some(groups) => over.within(groups.list_of(|group| group.list_of(Node::size))?),
            None => over,
        };
        Ok(Some(Self { over, what }))
    }

    /// What a device makes of its block.
    pub(super) fn run(&self, cx: &ManualCx, x: &Tensor) -> Result<Tensor> {
        let over = &self.over;
        match &self.what {
            What::Sum => cx.psum(x, over),
            What::Max => cx.pmax(x, over),
            What::Min => cx.pmin(x, over),
            What::Mean => cx.pmean(x, over),
            What::Gather { axis, tiled: false } => cx.all_gather(x, over, *axis),
            What::Gather { axis, tiled: true } => cx.all_gather_tiled(x, over, *axis),
            What::Scatter { axis, tiled: false } => cx.psum_scatter(x, over, *axis),
            What::Scatter { axis, tiled: true } => cx.psum_scatter_tiled(x, over, *axis),
            What::AllToAll { split, concat, tiled: false } => cx.all_to_all(x, over, *split, *concat),
            What::AllToAll { split, concat, tiled: true } => cx.all_to_all_tiled(x, over, *split, *concat),
            What::Permute(pairs) => cx.ppermute(x, over, pairs),
            What::Shuffle(perm) => cx.pshuffle(x, over, perm),
            // The number in every element of the block.
            What::Index => cx.axis_index(over)?.cast(DType::F32)?.broadcast_to(x.shape()),
            What::Size => {
                let size = Scalar::Float(cx.axis_size(over)? as f64);
                full(x.shape().clone(), size, DType::F32, &DeviceMapping::replicated(cx.mesh()))
            }
        }
    }
}

fn pair(node: &Node<'_>) -> Parsed<(usize, usize)> {
    match node.list_of(Node::size)?[..] {
        [source, destination] => Ok((source, destination)),
        _ => Err(node.expected("a pair of source and destination")),
    }
}
