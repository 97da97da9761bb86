//! Which rows can run on a mesh axis, and what they cost there.

use super::{CostModel, PlanRequest, StepQuery};
use crate::backend::StepKind;
use crate::mapping::Places;
use crate::placement::{DEFAULT_TRANSITIONS, Transition, TransitionKind, TransitionSet};
use crate::rule::{AxisAssignment, Role, RuleOperand, StageCollective};
use crate::{AxisType, DeviceMesh, Place, Shape};

/// The operand or result that a row fails on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Operand(usize),
    Result(usize),
}

/// Why a row cannot run. A small `Copy` value: it becomes text only in a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Why {
    /// No transition on one axis leads there.
    Unreachable { from: Place, to: Place },
    /// A shard would be empty: `ways` devices would split `extent`.
    Empty { tensor_axis: usize, extent: usize, ways: usize },
    /// The placement names a tensor axis that the shape lacks.
    OutOfRange { place: Place, ndim: usize },
    /// A custom placement refuses the extent or the number of devices.
    Misfit { place: Place, extent: usize },
    /// Two mesh axes would be Partial of different ops.
    Mixed { place: Place, other: Place, mesh_axis: usize },
    /// A custom placement would share its tensor axis with another mesh axis.
    Shared { place: Place, other: Place, mesh_axis: usize },
    /// The row names Unknown, so all operands must already lie as it says.
    Unknown { from: Place },
    /// A one-device tensor is passed whole.
    Whole { to: Place },
    /// A written operand is never moved.
    Written { from: Place },
    /// A number is Replicated or Partial.
    Number { to: Place },
    /// The cost model gives the change no cost that is finite and not negative.
    Priceless { transition: Transition },
}

/// What a row costs on a mesh axis, and who allows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score {
    pub(super) cost: f64,
    /// The number of operands whose placement changes; numbers do not count.
    pub(super) moved: usize,
    /// Whether any of them needs more than another label.
    pub(super) moves: bool,
    /// Whether the policy in force and the type of the mesh axis allow every change.
    pub(super) allowed: bool,
    /// Whether the default transitions allow every change, and the type of the axis every stage.
    pub(super) by_default: bool,
}

impl Score {
    /// Whether this row ranks before another one that the rule gave earlier.
    pub(super) fn beats(&self, other: &Self) -> bool {
        self.cost.total_cmp(&other.cost).then(self.moved.cmp(&other.moved)).is_lt()
    }
}

/// A mesh axis about to be decided: the call with the placements that earlier axes committed.
#[derive(Clone, Copy)]
pub(super) struct AxisView<'a> {
    pub(super) request: &'a PlanRequest<'a>,
    pub(super) axis: usize,
    /// Committed placements on earlier mesh axes, present ones on this and the later axes.
    pub(super) operands: &'a [RuleOperand],
    /// Committed placements on earlier mesh axes only.
    pub(super) results: &'a [Places],
}

impl AxisView<'_> {
    /// The number of devices along the axis.
    pub(super) fn ways(&self) -> usize {
        self.request.mesh.size(self.axis)
    }

    /// Whether ops never communicate by themselves on the axis.
    pub(super) fn is_explicit(&self) -> bool {
        self.request.mesh.axis_types().get(self.axis) == Some(&AxisType::Explicit)
    }

    /// The present placement of an operand on the axis.
    pub(super) fn from(&self, operand: &RuleOperand) -> Place {
        operand.places.get(self.axis).copied().unwrap_or(Place::Replicated)
    }

    /// The score of a row, or the first operand or result that it fails on.
    pub(super) fn score(&self, row: &AxisAssignment) -> Result<Score, (Value, Why)> {
        let exact = names_unknown(row);
        let mut score = Score { cost: 0.0, moved: 0, moves: false, allowed: true, by_default: true };
        for (i, (operand, to)) in self.operands.iter().zip(&row.operands).enumerate() {
            let fail = |why| (Value::Operand(i), why);
            let transition = self.change(i, operand, *to, exact).map_err(fail)?;
            let from = self.from(operand);
            if operand.role == Role::Scalar || settled(operand.role, from, *to) == from {
                continue;
            }
            score.moved += 1;
            if transition == Transition::NoOp {
                continue;
            }
            let cost = self.price(transition, operand.meta.bytes());
            if !is_price(cost) {
                return Err(fail(Why::Priceless { transition }));
            }
            score.cost += cost;
            score.moves = true;
            score.allowed &= self.allows(from, *to, transition);
            score.by_default &= holds(DEFAULT_TRANSITIONS, kind(from, *to, transition));
        }
        for (i, to) in row.results.iter().enumerate() {
            self.check_result(i, *to).map_err(|why| (Value::Result(i), why))?;
        }
        let stages = self.stage_price(row);
        if let Some(stage) = row.stages.first().filter(|_| !is_price(stages)) {
            return Err((Value::Result(0), Why::Priceless { transition: staged(stage.kind) }));
        }
        score.cost += stages;
        for stage in &row.stages {
            score.moves |= stage.exchanges();
            score.allowed &= self.allows_stage(stage);
            score.by_default &= !(self.is_explicit() && stage.kind.communicates());
        }
        Ok(score)
    }

    /// What an operand needs to be placed as a row says on this axis.
    pub(super) fn change(
        &self,
        i: usize,
        operand: &RuleOperand,
        to: Place,
        exact: bool,
    ) -> Result<Transition, Why> {
        let from = self.from(operand);
        match operand.role {
            Role::Scalar if matches!(to, Place::Replicated | Place::Partial(_) | Place::Unknown) => {
                return compatible(&operand.places, self.axis, to).map(|()| Transition::NoOp);
            }
            Role::Scalar => return Err(Why::Number { to }),
            Role::Single if matches!(to, Place::Replicated | Place::Unknown) => return Ok(Transition::NoOp),
            Role::Single => return Err(Why::Whole { to }),
            Role::Written if to != from => return Err(Why::Written { from }),
            Role::Written => return Ok(Transition::NoOp),
            Role::Tensor => {}
        }
        if exact && to != from {
            return Err(Why::Unknown { from });
        }
        if to == from && !self.moved_before(i, operand) {
            return Ok(Transition::NoOp);
        }
        let extent = from.tensor_axis().map_or(1, |axis| operand.meta.shape.extent(axis));
        match from.transition_to(to, extent, self.ways()) {
            Transition::Infeasible => Err(Why::Unreachable { from, to }),
            transition => {
                fits(&operand.meta.shape, to, self.ways())?;
                compatible(&operand.places, self.axis, to)?;
                self.leaves_none_empty(operand, to)?;
                Ok(transition)
            }
        }
    }

    /// What a change of so many global bytes costs on this axis.
    pub(super) fn price(&self, transition: Transition, bytes: usize) -> f64 {
        self.request.cost.transition(transition, bytes as f64, self.request.mesh, self.axis)
    }

    /// What the staged collectives of a row cost on this axis.
    pub(super) fn stage_price(&self, row: &AxisAssignment) -> f64 {
        stage_price(row, self.request.mesh, self.axis, self.request.cost)
    }

    /// Whether the policy, or on an explicit axis the type of the axis, allows a change.
    pub(super) fn allows(&self, from: Place, to: Place, transition: Transition) -> bool {
        match transition {
            Transition::NoOp => true,
            Transition::LocalSlice if self.is_explicit() => true,
            _ if self.is_explicit() => false,
            _ => holds(self.request.policy.allowed, kind(from, to, transition)),
        }
    }

    /// Whether a stage may run. A policy speaks of operands that move, by an exchange inside the op as by a transition; what
    /// an op works out on the way is a part of it. On an explicit axis nothing may communicate.
    pub(super) fn allows_stage(&self, stage: &StageCollective) -> bool {
        if self.is_explicit() {
            return !stage.kind.communicates();
        }
        !stage.exchanges() || self.request.policy.allowed.contains(TransitionKind::SS)
    }

    /// Whether an operand left its present placement on an earlier mesh axis.
    fn moved_before(&self, i: usize, operand: &RuleOperand) -> bool {
        let present = self.request.operands.get(i).map_or(&[][..], |present| &present.places);
        present.iter().zip(&operand.places).take(self.axis).any(|(present, now)| present != now)
    }

    /// A shard that moves must not become empty: the extent is at least the number of devices that split it, other
    /// mesh axes on the same tensor axis included.
    fn leaves_none_empty(&self, operand: &RuleOperand, to: Place) -> Result<(), Why> {
        let Some(tensor_axis) = to.tensor_axis() else { return Ok(()) };
        let elsewhere = operand
            .places
            .iter()
            .enumerate()
            .filter(|(axis, place)| *axis != self.axis && place.tensor_axis() == Some(tensor_axis))
            .map(|(axis, _)| self.request.mesh.size(axis));
        let ways = elsewhere.fold(self.ways(), usize::saturating_mul);
        let extent = operand.meta.shape.extent(tensor_axis);
        if extent < ways { Err(Why::Empty { tensor_axis, extent, ways }) } else { Ok(()) }
    }

    fn check_result(&self, i: usize, to: Place) -> Result<(), Why> {
        if let Some(meta) = self.request.results.get(i) {
            fits(&meta.shape, to, self.ways())?;
        }
        self.results.get(i).map_or(Ok(()), |places| compatible(places, self.axis, to))
    }
}

/// Whether a row says anything of values whose relation is not known.
pub(super) fn names_unknown(row: &AxisAssignment) -> bool {
    row.operands.iter().chain(&row.results).any(|place| *place == Place::Unknown)
}

/// The placement that an operand has once a row is committed: one-device tensors stay whole, numbers too where the
/// row says Unknown.
pub(super) fn settled(role: Role, from: Place, to: Place) -> Place {
    match role {
        Role::Single => from,
        Role::Scalar if to == Place::Unknown => from,
        _ => to,
    }
}

/// The kind of a change in the words of policies. A custom placement that localises no tensor axis has none of its
/// own; it counts as what it needs.
pub(super) fn kind(from: Place, to: Place, transition: Transition) -> Option<TransitionKind> {
    TransitionKind::of(from, to).or(match transition {
        Transition::NoOp | Transition::Infeasible => None,
        Transition::LocalSlice => Some(TransitionKind::RS),
        Transition::KeepOneCopy => Some(TransitionKind::RP),
        Transition::AllGather => Some(TransitionKind::SR),
        Transition::AllToAll | Transition::Permute => Some(TransitionKind::SS),
        Transition::AllReduce => Some(TransitionKind::PR),
        Transition::ReduceScatter => Some(TransitionKind::PS),
    })
}

fn holds(set: TransitionSet, kind: Option<TransitionKind>) -> bool {
    kind.is_none_or(|kind| set.contains(kind))
}

/// Whether rows can be compared by it: a number that is finite and not negative.
fn is_price(cost: f64) -> bool {
    cost.is_finite() && cost >= 0.0
}

/// What the staged collectives of a row cost on a mesh axis: the same formula as for an operand; an exchange of ranges what a
/// device receives.
pub(super) fn stage_price(row: &AxisAssignment, mesh: &DeviceMesh, axis: usize, cost: &dyn CostModel) -> f64 {
    let one = |stage: &StageCollective| match stage.kind {
        StepKind::Permute => cost.step(&StepQuery {
            kind: stage.kind,
            mesh,
            axes: &[axis],
            group: mesh.size(axis),
            bytes: stage.bytes as f64 * mesh.size(axis) as f64,
            received: stage.bytes as f64,
        }),
        kind => cost.transition(staged(kind), stage.bytes as f64, mesh, axis),
    };
    row.stages.iter().map(one).sum()
}

/// The transition whose formula prices a staged collective.
const fn staged(kind: StepKind) -> Transition {
    match kind {
        StepKind::LocalSlice => Transition::LocalSlice,
        StepKind::KeepOneCopy(_) => Transition::KeepOneCopy,
        StepKind::AllGather => Transition::AllGather,
        StepKind::AllReduce(_) => Transition::AllReduce,
        StepKind::ReduceScatter(_) => Transition::ReduceScatter,
        StepKind::AllToAll => Transition::AllToAll,
        StepKind::Permute | StepKind::Move => Transition::Permute,
        StepKind::Relabel => Transition::NoOp,
    }
}

/// Whether a placement fits a shape on a mesh axis of so many devices.
fn fits(shape: &Shape, to: Place, ways: usize) -> Result<(), Why> {
    let Some(tensor_axis) = to.tensor_axis() else { return Ok(()) };
    let Some(extent) = shape.get(tensor_axis).copied() else {
        return Err(Why::OutOfRange { place: to, ndim: shape.len() });
    };
    match to {
        Place::Custom(custom) if custom.check(extent, ways).is_err() => {
            Err(Why::Misfit { place: to, extent })
        }
        _ => Ok(()),
    }
}

/// Whether `to` on mesh axis `axis` makes a valid mapping with the placements on the other mesh axes.
fn compatible(places: &[Place], axis: usize, to: Place) -> Result<(), Why> {
    for (mesh_axis, other) in places.iter().copied().enumerate() {
        if mesh_axis == axis {
            continue;
        }
        if let (Some(a), Some(b)) = (to.reduce_op(), other.reduce_op())
            && a != b
        {
            return Err(Why::Mixed { place: to, other, mesh_axis });
        }
        let custom = matches!(to, Place::Custom(_)) || matches!(other, Place::Custom(_));
        if custom && to.tensor_axis().is_some() && to.tensor_axis() == other.tensor_axis() {
            return Err(Why::Shared { place: to, other, mesh_axis });
        }
    }
    Ok(())
}
