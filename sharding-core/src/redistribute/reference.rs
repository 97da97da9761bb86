//! What a program that never exchanges ranges costs: combine, gather, slice, keep one copy, one after the other. It is what
//! another system runs, and the yardstick of prices: no program may be dearer under the volume model.

use super::axis_set::{AxisSet, Splits, nests};
use super::price::Pricing;
use super::state::{Problem, View};
use crate::backend::StepKind;
use crate::{ReduceOp, TensorLayout};

/// The price of that program on one mesh; `None` where it has none, as custom placements and parts of two kinds are not
/// known there.
pub(super) fn price(problem: &Problem<'_>, pricing: &Pricing<'_>) -> Option<f64> {
    let op = match (problem.source_op, problem.target_op) {
        _ if problem.any_custom() => return None,
        (Some(a), Some(b)) if a != b => return None,
        (source, target) => source.or(target).unwrap_or_default(),
    };
    let (start, goal) = (problem.view(problem.start), problem.view(problem.goal));
    let (parts, kept) = (partial(problem, problem.source), partial(problem, problem.target));
    let mut walk = Walk { problem, pricing, at: start, parts, price: 0.0 };
    walk.reduce(op, parts.minus(goal.sharded).minus(kept));
    for split in 0..problem.splits.len() {
        let (from, to) = (start.splits.get(split), goal.splits.get(split));
        let rest = to.minus(shared(problem, split, from, to));
        if from == shared(problem, split, from, to) && rest.is_within(walk.parts) {
            walk.step(StepKind::ReduceScatter(op), rest);
            walk.parts = walk.parts.minus(rest);
            walk.split(split, rest);
        }
    }
    walk.reduce(op, walk.parts.minus(kept));
    for split in 0..problem.splits.len() {
        let from = start.splits.get(split);
        let gathered = from.minus(shared(problem, split, from, goal.splits.get(split)));
        walk.step(StepKind::AllGather, gathered);
        walk.join(split, gathered);
    }
    for split in 0..problem.splits.len() {
        let missing = goal.splits.get(split).minus(walk.at.splits.get(split));
        walk.step(StepKind::LocalSlice, missing);
        walk.split(split, missing);
    }
    walk.step(StepKind::KeepOneCopy(op), kept.minus(walk.parts));
    Some(walk.price)
}

/// A tensor on its way, and what it has cost so far.
struct Walk<'a> {
    problem: &'a Problem<'a>,
    pricing: &'a Pricing<'a>,
    at: View,
    parts: AxisSet,
    price: f64,
}

impl Walk<'_> {
    fn step(&mut self, kind: StepKind, axes: AxisSet) {
        if !axes.is_empty() {
            let mesh = self.problem.source.mesh();
            self.price += self.pricing.step(self.problem, mesh, kind, &self.at, axes, 0.0);
        }
    }
    fn reduce(&mut self, op: ReduceOp, axes: AxisSet) {
        self.step(StepKind::AllReduce(op), axes);
        self.parts = self.parts.minus(axes);
    }
    fn split(&mut self, split: usize, axes: AxisSet) {
        self.at.splits = self.at.splits.or(Splits::only(split, axes));
        self.at.sharded = self.at.sharded.or(axes);
    }
    fn join(&mut self, split: usize, axes: AxisSet) {
        self.at.splits = self.at.splits.minus(Splits::only(split, axes));
        self.at.sharded = self.at.sharded.minus(axes);
    }
}

/// The mesh axes of more than one device that are Partial.
fn partial(problem: &Problem<'_>, layout: &TensorLayout) -> AxisSet {
    let axes = layout.places().iter().enumerate();
    let parts = axes.filter(|(axis, place)| place.is_partial() && problem.sizes.get(*axis) > 1);
    parts.fold(AxisSet::EMPTY, |all, (axis, _)| all.or(AxisSet::of(axis)))
}

/// The mesh axes at the front that split a tensor axis alike before and after, with cuts that agree with those of them alone.
fn shared(problem: &Problem<'_>, split: usize, from: AxisSet, to: AxisSet) -> AxisSet {
    let extent = problem.splits.get(split).map_or(0, |split| split.extent);
    let alike = from.iter().zip(to.iter()).take_while(|(a, b)| a == b);
    let mut shared = alike.fold(AxisSet::EMPTY, |all, (axis, _)| all.or(AxisSet::of(axis)));
    let agrees = |shared: AxisSet| {
        let whole = |all: AxisSet| {
            nests(extent, problem.sizes.ways(shared), 1, problem.sizes.ways(all.minus(shared)))
        };
        whole(from) && whole(to)
    };
    while !agrees(shared) {
        shared = shared.without_last();
    }
    shared
}
