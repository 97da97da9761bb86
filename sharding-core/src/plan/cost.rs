//! Cost models: the score of a row, and the price of a redistribution's step.

use crate::DeviceMesh;
use crate::backend::StepKind;
use crate::placement::Transition;
use std::fmt::Debug;

/// What a step of a redistribution is priced by.
#[derive(Clone, Copy, Debug)]
pub struct StepQuery<'a> {
    /// The kind of exchange.
    pub kind: StepKind,
    /// The mesh.
    pub mesh: &'a DeviceMesh,
    /// The mesh axes whose groups take part.
    pub axes: &'a [usize],
    /// The number of devices of a group.
    pub group: usize,
    /// Global bytes divided by the sizes of the mesh axes outside the group on which the tensor is sharded then.
    pub bytes: f64,
    /// For `Permute` and `Move`: the most bytes that one device receives from others.
    pub received: f64,
}

/// What the answers of a [`CostModel`] count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostUnit {
    /// Bytes that one device sends.
    Bytes,
    /// Seconds.
    Seconds,
    /// Something of the model's own.
    Score,
}

impl CostUnit {
    /// What stands above a column of costs.
    pub const fn name(self) -> &'static str {
        match self {
            CostUnit::Bytes => "bytes",
            CostUnit::Seconds => "seconds",
            CostUnit::Score => "cost",
        }
    }
}

/// A model of what moving data costs. Pure; equal keys must mean equal answers.
///
/// The search takes for granted that no answer is negative, that more bytes cost no less, and that a collective over one mesh
/// axis costs no more than two that do the same.
pub trait CostModel: Debug + Send + Sync {
    /// What tells this model from others, for the keys of plans.
    fn key(&self) -> u64;
    /// What the answers count.
    fn unit(&self) -> CostUnit;
    /// The score of moving one operand of `bytes` global bytes by a transition on one mesh axis. A score of rows, not
    /// a count of bytes: other mesh axes are ignored, and it applies literally on an axis of size 1.
    fn transition(&self, transition: Transition, bytes: f64, mesh: &DeviceMesh, axis: usize) -> f64;
    /// The price of one step of a redistribution; infinity for what must not be done. Not just a large number: beside one other
    /// prices vanish, and the way of fewest steps is taken for the cheapest.
    fn step(&self, query: &StepQuery<'_>) -> f64;
}

/// The default model: bytes that one device sends.
///
/// With `b` bytes over `n` devices: all_gather, all_to_all and reduce_scatter cost `b (n-1)/n`, all_reduce twice
/// that, local_slice and keep_one_copy `b/n/64`. A step over a group of `g` prices all_to_all at `B (g-1)/g²`.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeCost;

impl CostModel for VolumeCost {
    fn key(&self) -> u64 {
        0
    }

    fn unit(&self) -> CostUnit {
        CostUnit::Bytes
    }

    fn transition(&self, transition: Transition, bytes: f64, mesh: &DeviceMesh, axis: usize) -> f64 {
        let n = mesh.size(axis) as f64;
        match transition {
            Transition::NoOp => 0.0,
            Transition::LocalSlice | Transition::KeepOneCopy => bytes / n / 64.0,
            Transition::AllGather
            | Transition::AllToAll
            | Transition::ReduceScatter
            | Transition::Permute => bytes * (n - 1.0) / n,
            Transition::AllReduce => 2.0 * bytes * (n - 1.0) / n,
            Transition::Infeasible => f64::INFINITY,
        }
    }

    fn step(&self, query: &StepQuery<'_>) -> f64 {
        let (b, g) = (query.bytes, query.group as f64);
        match query.kind {
            StepKind::Relabel => 0.0,
            StepKind::LocalSlice | StepKind::KeepOneCopy(_) => b / g / 64.0,
            StepKind::AllGather | StepKind::ReduceScatter(_) => b * (g - 1.0) / g,
            StepKind::AllReduce(_) => 2.0 * b * (g - 1.0) / g,
            StepKind::AllToAll => b * (g - 1.0) / (g * g),
            StepKind::Permute | StepKind::Move => query.received,
        }
    }
}
