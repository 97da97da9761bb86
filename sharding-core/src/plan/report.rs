//! Why a call was planned as it was: what an error or a warning tells about it. Made only when somebody reads it.

use super::feasible::{AxisView, Score, Value, Why, kind, names_unknown};
use super::pick::Picker;
use super::{Mode, PlanRequest, Policy, joint, text};
use crate::placement::{Transition, TransitionKind, TransitionSet};
use crate::rule::{AxisAssignment, Role, StageCollective};
use crate::{AxisType, Error, ErrorKind, Place, Places};
use std::cmp::Reverse;
use std::fmt;

/// What the planner saw and decided, mesh axis by mesh axis.
///
/// Its text names the call, every operand's layout, the policy in force, every candidate row with what it needs, its
/// cost and its status, the redistribution to write and the block to open. It has no file and line: a plan is made
/// once and used by many calls, and the report is shown with each of them.
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) op: &'static str,
    pub(super) names: Vec<String>,
    pub(super) operands: Vec<String>,
    pub(super) mesh_axes: Vec<String>,
    pub(super) policy: Policy,
    /// What costs are: bytes in the default model.
    pub(super) unit: &'static str,
    pub(super) axes: Vec<AxisReport>,
    pub(super) verdict: Verdict,
    /// The operands that move.
    pub(super) moved: Vec<usize>,
    /// The lines that make the call run without a reshard.
    pub(super) fix: Vec<String>,
    /// The block that allows what is needed, where a policy can.
    pub(super) block: Option<String>,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It runs.
    Runs,
    /// It would move something in mode Raise; first on this mesh axis.
    Raises(usize),
    /// It needs what the policy does not allow; first on this mesh axis.
    Forbidden(usize),
    /// It needs communication on this explicit mesh axis.
    Explicit(usize),
    /// No row is feasible on this mesh axis.
    Stuck(usize),
    /// The rule gave no usable answer.
    Broken,
}

/// One mesh axis of a [`Report`].
#[derive(Clone, Debug)]
pub(super) struct AxisReport {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) kind: AxisType,
    /// The feasible rows, cheapest first, then the others in the rule's order.
    pub(super) candidates: Vec<Candidate>,
}

/// One row on one mesh axis.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) row: AxisAssignment,
    /// The placement of every operand before.
    pub(super) from: Vec<Place>,
    /// What every operand needs; `NoOp` for what stays, and throughout where the row is not feasible.
    pub(super) needs: Vec<Transition>,
    /// Its score, or what it fails on.
    pub(super) score: Result<Score, (Value, Why)>,
    /// The changes that the policy, or the type of the axis, does not allow, by operand.
    pub(super) forbidden: Vec<(usize, Option<TransitionKind>, Transition)>,
    /// Stages that the policy, or the type of the axis, does not allow.
    pub(super) forbidden_stages: Vec<StageCollective>,
    /// Whether it was committed.
    pub(super) committed: bool,
}

impl Report {
    /// The rows that were committed, by mesh axis.
    pub(super) fn committed(&self) -> impl Iterator<Item = &Candidate> {
        self.axes.iter().flat_map(|axis| &axis.candidates).filter(|row| row.committed)
    }
    /// Whether elements of operands change their device inside the op.
    pub(super) fn exchanges(&self) -> bool {
        self.committed().any(|row| row.row.exchanges())
    }
    /// The lines to write before the call so that nothing has to move inside it; empty where nothing moves.
    pub fn fix(&self) -> &[String] {
        &self.fix
    }
    /// The block to open so that the call may move what it needs, where a policy can allow it.
    pub fn block(&self) -> Option<&str> {
        self.block.as_deref()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::report(self, f)
    }
}

/// Plans again and keeps what was seen: for reports, warnings and tests. Slow, where [`plan`](super::plan) is not.
pub fn trace(request: &PlanRequest<'_>) -> Report {
    let names: Vec<String> =
        (0..request.operands.len()).map(|i| request.def.operand_name(request.groups, i)).collect();
    let mut report = Report {
        op: request.def.name,
        operands: text::operands(request),
        names,
        mesh_axes: request.mesh.axis_names().map(str::to_owned).collect(),
        policy: request.policy,
        unit: request.cost.unit().name(),
        axes: Vec::new(),
        verdict: Verdict::Runs,
        moved: Vec::new(),
        fix: Vec::new(),
        block: None,
    };
    let Ok(mut picker) = Picker::new(request) else {
        report.verdict = Verdict::Broken;
        return report;
    };
    let path = joint::path(request);
    for axis in 0..request.mesh.ndim() {
        if picker.ask(axis).is_err() {
            report.verdict = Verdict::Broken;
            break;
        }
        let choice = picker.choose_along(path.as_deref(), axis);
        let view = picker.view(axis);
        let mut candidates: Vec<Candidate> = picker
            .rows()
            .iter()
            .enumerate()
            .map(|(i, row)| candidate(&view, row, choice.is_some_and(|choice| choice.row == i)))
            .collect();
        // Stable: ties keep the rule's order, and what is not feasible goes last.
        candidates.sort_by(|a, b| match (&a.score, &b.score) {
            (Ok(a), Ok(b)) => a.cost.total_cmp(&b.cost).then(a.moved.cmp(&b.moved)),
            (a, b) => Reverse(a.is_ok()).cmp(&Reverse(b.is_ok())),
        });
        report.axes.push(AxisReport {
            name: request.mesh.axis_name(axis).to_owned(),
            size: request.mesh.size(axis),
            kind: request.mesh.axis_types().get(axis).copied().unwrap_or_default(),
            candidates,
        });
        let Some(choice) = choice else {
            report.verdict = Verdict::Stuck(axis);
            break;
        };
        if report.verdict == Verdict::Runs {
            report.verdict = match (view.is_explicit(), request.policy.mode) {
                (true, _) if !choice.score.allowed => Verdict::Explicit(axis),
                (false, _) if !choice.score.allowed => Verdict::Forbidden(axis),
                (_, Mode::Raise) if choice.score.moves => Verdict::Raises(axis),
                _ => Verdict::Runs,
            };
        }
        picker.commit(axis, choice);
    }
    advise(request, &picker, &mut report);
    report
}

fn candidate(view: &AxisView<'_>, row: &AxisAssignment, committed: bool) -> Candidate {
    let exact = names_unknown(row);
    let score = view.score(row);
    let from: Vec<Place> = view.operands.iter().map(|operand| view.from(operand)).collect();
    let mut needs = vec![Transition::NoOp; from.len()];
    let mut forbidden = Vec::new();
    if score.is_ok() {
        for (i, (operand, to)) in view.operands.iter().zip(&row.operands).enumerate() {
            let Ok(transition) = view.change(i, operand, *to, exact) else { continue };
            let from = view.from(operand);
            if !view.allows(from, *to, transition) {
                forbidden.push((i, kind(from, *to, transition), transition));
            }
            if let Some(slot) = needs.get_mut(i) {
                *slot = transition;
            }
        }
    }
    let stages = row.stages.iter().filter(|stage| !view.allows_stage(stage));
    Candidate {
        row: row.clone(),
        from,
        needs,
        score,
        forbidden,
        forbidden_stages: stages.copied().collect(),
        committed,
    }
}

/// The lines to write and the block to open.
fn advise(request: &PlanRequest<'_>, picker: &Picker<'_>, report: &mut Report) {
    for (i, (before, after)) in request.operands.iter().zip(picker.operands()).enumerate() {
        if before.role != Role::Tensor {
            continue;
        }
        if before.places != after.places {
            report.moved.push(i);
        }
        let places = without_exchange(report, i, &after.places);
        if before.places != places {
            report.fix.push(text::transfer(request, i, &places));
        }
    }
    if let Verdict::Stuck(axis) = report.verdict {
        report.fix = text::unstick(request, axis);
        return;
    }
    if let Verdict::Explicit(_) = report.verdict
        && report.fix.is_empty()
    {
        // Nothing to move by hand: the op itself communicates.
        report.fix = text::relabel(request);
    }
    let explicit = report.axes.iter().any(|axis| {
        axis.kind == AxisType::Explicit
            && axis.candidates.iter().any(|row| row.committed && row.score.is_ok_and(|score| !score.allowed))
    });
    if (report.moved.is_empty() && !report.exchanges()) || explicit {
        return;
    }
    let needed = report.committed().flat_map(|row| {
        let inside = row.row.exchanges().then_some(TransitionKind::SS);
        row.forbidden.iter().filter_map(|(_, kind, _)| *kind).chain(inside)
    });
    let allowed: TransitionSet = needed.fold(request.policy.allowed, TransitionSet::with);
    report.block = Some(text::block(request.def.name, allowed));
}

/// Where an operand is to lie so that nothing is exchanged inside the op: as the cheapest row without an exchange says, on the
/// mesh axes where the committed row has one.
fn without_exchange(report: &Report, operand: usize, after: &[Place]) -> Places {
    let mut places = Places::from_slice(after);
    for (axis, place) in report.axes.iter().zip(places.iter_mut()) {
        if !axis.candidates.iter().any(|row| row.committed && row.row.exchanges()) {
            continue;
        }
        let other = axis.candidates.iter().find(|row| row.score.is_ok() && !row.row.exchanges());
        if let Some(to) = other.and_then(|row| row.row.operands.get(operand)) {
            *place = *to;
        }
    }
    places
}

/// Between two lines of a fix, so that they stand below each other.
const NEXT_FIX: &str = "\n       ";

/// The error of a call that cannot run as it is.
pub(super) fn refusal(request: &PlanRequest<'_>) -> Error {
    let report = trace(request);
    let axis = match report.verdict {
        Verdict::Raises(axis) | Verdict::Forbidden(axis) | Verdict::Explicit(axis) | Verdict::Stuck(axis) => {
            axis
        }
        // The rule changed its mind between two questions.
        Verdict::Runs | Verdict::Broken => {
            let message = "the op's rule gives different rows for equal questions";
            return Error::new(ErrorKind::Sharding, message)
                .with_op(request.def.name)
                .with_fix("make the rule a pure function of what it is asked with");
        }
    };
    let detail = text::Detail(&report).to_string();
    let mut fix = report.fix.join(NEXT_FIX);
    if let Some(block) = &report.block {
        fix.push_str("\n  or:  ");
        fix.push_str(block);
    }
    let error = Error::new(ErrorKind::Sharding, text::headline(&report)).with_detail(detail);
    let error = if fix.is_empty() { error } else { error.with_fix(fix) };
    located(request, axis, error)
}

/// The error of a call on a mesh with a manual axis.
pub(super) fn manual(request: &PlanRequest<'_>, axis: usize) -> Error {
    let error = Error::new(
        ErrorKind::Sharding,
        "an op runs on a manual mesh axis only inside shard_map; outside, only transfer and inspection work",
    )
    .with_fix(format!(
        "shard_map over '{}', or relabel the axis: x.on(&mesh.with_axis_types([..])?)?",
        request.mesh.axis_name(axis)
    ));
    located(request, axis, error)
}

/// The error of a rule that refuses the operands where they lie: a rule knows no names, so the lines to write are
/// added here unless it said what to do.
pub(super) fn unplaced(request: &PlanRequest<'_>, axis: usize, error: Error) -> Error {
    let lines = match (error.kind(), error.fix()) {
        (ErrorKind::Sharding, None) => text::unstick(request, axis),
        _ => Vec::new(),
    };
    let error = if lines.is_empty() { error } else { error.with_fix(lines.join(NEXT_FIX)) };
    located(request, axis, error)
}

/// Adds op, operands and mesh axis to an error.
pub(super) fn located(request: &PlanRequest<'_>, axis: usize, error: Error) -> Error {
    error
        .with_op(request.def.name)
        .with_operands(text::operands(request))
        .with_mesh_axis(request.mesh.axis_name(axis), request.mesh.size(axis))
}
