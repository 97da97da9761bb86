//! What a step costs.

use super::axis_set::AxisSet;
use super::overlap::{common, total};
use super::state::{Problem, View};
use crate::backend::StepKind;
use crate::placement::Ranges;
use crate::plan::{CostModel, StepQuery};
use crate::split::balanced;
use crate::{DeviceMesh, MAX_MESH_AXES};
use smallvec::{SmallVec, smallvec};

/// Up to so many combinations of coordinates a permutation is priced exactly, beyond by the size of the largest new
/// shard.
const MAX_COORDINATES: usize = 1 << 20;

/// Prices steps on meshes of one shape.
pub(super) struct Pricing<'a> {
    pub(super) cost: &'a dyn CostModel,
    pub(super) bytes: f64,
}

impl Pricing<'_> {
    /// The price of a step of `kind` over `group` from a state; `received` counts for permutations and moves.
    pub(super) fn step(
        &self,
        problem: &Problem<'_>,
        mesh: &DeviceMesh,
        kind: StepKind,
        from: &View,
        group: AxisSet,
        received: f64,
    ) -> f64 {
        let mut axes = [0; MAX_MESH_AXES];
        let mut n = 0;
        for (slot, axis) in axes.iter_mut().zip(group.iter()) {
            *slot = axis;
            n += 1;
        }
        self.cost.step(&StepQuery {
            kind,
            mesh,
            axes: axes.get(..n).unwrap_or(&[]),
            group: problem.sizes.ways(group),
            bytes: self.bytes / problem.sizes.ways(from.sharded.minus(group)) as f64,
            received,
        })
    }

    /// The most bytes that one device receives from others when a state becomes another by exchanging ranges.
    pub(super) fn received(&self, problem: &Problem<'_>, old: &View, new: &View) -> f64 {
        let all: usize = problem.source.shape().elements();
        if all == 0 {
            return 0.0;
        }
        let changed = changed(problem, old, new);
        // Tensor axes that do not change multiply what the others receive; their largest piece is independent of those.
        let mut rest = 1.0;
        for (axis, extent) in problem.source.shape().iter().enumerate() {
            match problem.splits.iter().position(|split| split.axis == axis) {
                None => rest *= *extent as f64,
                Some(split) if !changed.contains(&split) => rest *= problem.held_of(new, split) as f64,
                Some(_) => {}
            }
        }
        rest * received_by_coordinates(problem, old, new, &changed) * self.bytes / all as f64
    }
}

/// The tensor axes whose ranges differ.
fn changed(problem: &Problem<'_>, old: &View, new: &View) -> SmallVec<[usize; 4]> {
    let differs = |split: &usize| {
        old.splits.get(*split) != new.splits.get(*split)
            || match (problem.custom(old, *split), problem.custom(new, *split)) {
                (None, None) => false,
                (Some(a), Some(b)) => !std::ptr::eq(a, b),
                _ => true,
            }
    };
    (0..problem.splits.len()).filter(differs).collect()
}

/// The most elements of the changed tensor axes that a device gets and does not have. Only coordinates on mesh axes
/// that split one of them matter.
fn received_by_coordinates(problem: &Problem<'_>, old: &View, new: &View, changed: &[usize]) -> f64 {
    let side = |view: &View, split: usize| view.splits.get(split).copied().unwrap_or_default();
    let relevant =
        changed.iter().fold(AxisSet::EMPTY, |all, split| all.or(side(old, *split)).or(side(new, *split)));
    if problem.sizes.ways(relevant) > MAX_COORDINATES {
        return changed.iter().map(|split| problem.held_of(new, *split) as f64).product();
    }
    let mut coords = [0_usize; MAX_MESH_AXES];
    let mut most = 0;
    loop {
        let (mut gets, mut has) = (1, 1);
        for split in changed {
            let (from, to) = (
                ranges(problem, old, side(old, *split), *split, &coords),
                ranges(problem, new, side(new, *split), *split, &coords),
            );
            gets *= total(&to);
            has *= common(&from, &to);
        }
        most = most.max(gets - has);
        if !advance(&mut coords, relevant, problem) {
            return most as f64;
        }
    }
}

/// The next coordinate on the relevant axes; `false` after the last.
fn advance(coords: &mut [usize; MAX_MESH_AXES], relevant: AxisSet, problem: &Problem<'_>) -> bool {
    for axis in relevant.iter() {
        if let Some(coord) = coords.get_mut(axis) {
            *coord += 1;
            if *coord < problem.sizes.get(axis) {
                return true;
            }
            *coord = 0;
        }
    }
    false
}

fn ranges(
    problem: &Problem<'_>,
    view: &View,
    axes: AxisSet,
    split: usize,
    coords: &[usize; MAX_MESH_AXES],
) -> Ranges {
    let extent = problem.splits.get(split).map_or(0, |split| split.extent);
    let (mut ways, mut part) = (1, 0);
    for axis in axes.iter() {
        let size = problem.sizes.get(axis);
        ways *= size;
        part = part * size + coords.get(axis).copied().unwrap_or(0);
    }
    match problem.custom(view, split) {
        Some(custom) => custom.placement().ranges(extent, ways, part),
        None => smallvec![balanced(extent, ways, part)],
    }
}
