//! Asking a rule with operands placed in several ways: rows may depend on the present placements.

use super::Subject;
use super::trial::Trial;
use crate::conformance::host::Random;
use crate::mapping::Places;
use crate::op::Groups;
use crate::placement::{Interleaved, Ragged, sharded};
use crate::rule::{AxisAssignment, Role, Rows, RuleCx, RuleOperand};
use crate::{Place, ReduceOp, Result, Shape};

/// Present placements of all operands on one mesh axis.
pub(super) type Present = Vec<Place>;

/// The most ways to place the operands of one question.
const QUESTIONS: usize = 600;

/// The rows of a rule on mesh axis `axis`, asked with the operands placed as given on the axes before (`committed`),
/// on this one and on those after (`present`, from `axis` on).
pub(super) fn ask(
    subject: &Subject<'_>,
    trial: &Trial,
    mesh_shape: &[usize],
    committed: &[AxisAssignment],
    present: &[&Present],
) -> Result<Rows> {
    let operands: Vec<RuleOperand> = trial
        .case
        .operands
        .iter()
        .zip(&trial.roles)
        .enumerate()
        .map(|(i, (operand, role))| {
            let before = committed.iter().map(|row| row.operands.get(i));
            let from = present.iter().map(|present| present.get(i));
            let places: Places =
                before.chain(from).map(|place| place.copied().unwrap_or(Place::Replicated)).collect();
            RuleOperand { meta: operand.meta.clone(), places, role: *role }
        })
        .collect();
    let cx = RuleCx {
        axis: committed.len(),
        mesh_shape,
        operands: &operands,
        groups: Groups(&trial.case.groups),
        results: &trial.results,
        committed,
    };
    let mut rows = Rows::new();
    super::caught(|| (subject.rows)(&cx, trial.case.args.as_any(), &mut rows))?;
    Ok(rows)
}

/// Every placement worth asking with for a tensor of this shape over `ways` devices.
fn placements(shape: &Shape, role: Role, ways: usize) -> Vec<Place> {
    let mut places = vec![Place::Replicated];
    if role == Role::Scalar {
        return places;
    }
    for (axis, extent) in shape.iter().enumerate() {
        places.push(sharded(axis));
        places.extend(custom(axis, *extent, ways));
    }
    let ops = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod];
    places.extend(ops.map(Place::Partial));
    places.push(Place::Unknown);
    places
}

/// Placements on the open trait: sizes as unbalanced as can be, both ways round (two operands may carry two that only
/// look alike), and two parts split on their own.
fn custom(axis: usize, extent: usize, ways: usize) -> Vec<Place> {
    let mut places = Vec::new();
    if extent == 0 || ways < 2 {
        return places;
    }
    let mut sizes = vec![0; ways];
    if let Some(first) = sizes.first_mut() {
        *first = usize::from(extent > 1);
    }
    if let Some(last) = sizes.last_mut() {
        *last = extent - usize::from(extent > 1);
    }
    places.push(Ragged::place(axis, &sizes));
    if extent > 1 {
        sizes.reverse();
        places.push(Ragged::place(axis, &sizes));
        places.push(Interleaved::place(axis, [extent / 2, extent - extent / 2]));
    }
    // Sizes that are the balanced ones are no placement of their own.
    places.retain(|place| matches!(place, Place::Custom(_)));
    places
}

/// All combinations of the operands' placements, or a sample of them that holds the uniform ones.
pub(super) fn questions(trial: &Trial, ways: usize) -> Vec<Present> {
    let choices: Vec<Vec<Place>> = trial
        .case
        .operands
        .iter()
        .zip(&trial.roles)
        .map(|(operand, role)| placements(&operand.meta.shape, *role, ways))
        .collect();
    let total = choices.iter().try_fold(1_usize, |n, places| n.checked_mul(places.len()));
    let nth = |mut number: usize| -> Present {
        choices
            .iter()
            .map(|places| {
                let place = places.get(number % places.len().max(1)).copied();
                number /= places.len().max(1);
                place.unwrap_or(Place::Replicated)
            })
            .collect()
    };
    if let Some(total) = total
        && total <= QUESTIONS
    {
        return (0..total).map(nth).collect();
    }
    let mut questions = vec![vec![Place::Replicated; choices.len()]];
    let widest = choices.iter().map(Vec::len).max().unwrap_or(0);
    for number in 0..widest {
        // The same choice everywhere, and one operand alone.
        questions.push(
            choices.iter().map(|places| places.get(number).copied().unwrap_or(Place::Replicated)).collect(),
        );
        for (operand, places) in choices.iter().enumerate() {
            let mut alone = vec![Place::Replicated; choices.len()];
            if let (Some(slot), Some(place)) = (alone.get_mut(operand), places.get(number)) {
                *slot = *place;
            }
            questions.push(alone);
        }
    }
    let mut random = Random::new(5);
    while questions.len() < QUESTIONS {
        questions.push(
            choices
                .iter()
                .map(|places| places.get(random.below(places.len())).copied().unwrap_or(Place::Replicated))
                .collect(),
        );
    }
    questions
}
