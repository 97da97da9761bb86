//! Likely missing rows: placements that no row names, though the kernel is right for them.

use super::Subject;
use super::execute::{Executor, join, label};
use super::trial::Trial;
use crate::mapping::Places;
use crate::op::OperandKind;
use crate::placement::sharded;
use crate::rule::{AxisAssignment, Role};
use crate::{DType, DeviceMesh, Place, Result, TensorLayout, TensorMeta};

/// The most operands of an op that hints are looked for.
const OPERANDS: usize = 3;
/// The most placements of operands, or of results, that are tried.
const TRIED: usize = 400;
/// The most hints of one op.
const HINTS: usize = 12;
/// The mesh axis.
const WAYS: usize = 2;

/// Rows on a mesh axis of 2 that hold on every trial of one kind, and whose operands' placements no known row of that kind
/// names; each with a call of its kind.
///
/// Trials are of one kind if they have the same arguments and numbers of dimensions. Only those count in which nothing
/// is empty or broadcasts: in others too much is right by chance.
pub(super) fn of(subject: &Subject<'_>, tried: &[(Trial, Vec<AxisAssignment>)]) -> Result<Vec<String>> {
    let mesh = DeviceMesh::simulated(subject.kind, [WAYS], ["x"])?;
    let mut hints: Vec<(AxisAssignment, String)> = Vec::new();
    let mut done: Vec<String> = Vec::new();
    for (first, _) in tried.iter().filter(|(trial, _)| tells(subject, trial)) {
        let own = kind(first);
        if done.contains(&own) {
            continue;
        }
        let alike: Vec<_> = tried.iter().filter(|(trial, _)| kind(trial) == own).collect();
        let witnesses: Vec<&Trial> =
            alike.iter().map(|(trial, _)| trial).filter(|trial| tells(subject, trial)).collect();
        let operands: Vec<TensorMeta> =
            first.case.operands.iter().map(|operand| operand.meta.clone()).collect();
        for places in combinations(&operands) {
            let named = |row: &AxisAssignment| row.operands.as_slice() == places.as_slice();
            // Extents that all devices share equally, or that no second call confirms, are no proof.
            if witnesses.len() < 2
                || alike.iter().any(|(_, rows)| rows.iter().any(named))
                || !witnesses.iter().any(|trial| uneven(trial, &places))
            {
                continue;
            }
            for results in combinations(&first.results) {
                let row = AxisAssignment::new(places.iter().copied(), results.iter().copied());
                if hints.len() < HINTS && witnesses.iter().all(|trial| holds(subject, trial, &mesh, &row)) {
                    if hints.iter().all(|(known, _)| *known != row) {
                        hints.push((row, first.describe(subject)));
                    }
                    break;
                }
            }
        }
        done.push(own);
    }
    Ok(hints.into_iter().map(|(row, call)| format!("{row} for {call}")).collect())
}

/// What trials of one kind have in common.
fn kind(trial: &Trial) -> String {
    let operands = trial.inputs.iter().map(|input| input.shape.len());
    let results = trial.results.iter().map(|meta| meta.shape.len());
    let roles = &trial.roles;
    format!(
        "{:?} {:?} {roles:?} {:?}",
        operands.collect::<Vec<_>>(),
        results.collect::<Vec<_>>(),
        trial.case.args
    )
}

/// Whether a trial can tell a right row from a wrong one, and is of an op that hints are looked for.
fn tells(subject: &Subject<'_>, trial: &Trial) -> bool {
    let plain = trial.roles.iter().all(|role| !matches!(role, Role::Written | Role::Scalar));
    // A list of one is the call of another op.
    let declared = subject.def.operands.iter().zip(&trial.case.groups);
    let lists = declared.filter(|(operand, _)| operand.kind == OperandKind::Many).all(|(_, n)| *n > 1);
    let operands = trial.inputs.iter().map(|input| &input.shape);
    let results = trial.results.iter().map(|meta| &meta.shape);
    let elements = results.clone().any(|_| true) && results.clone().all(|shape| shape.elements() > 0);
    plain
        && lists
        && operands.clone().any(|shape| shape.elements() > 2)
        && trial.inputs.len() <= OPERANDS
        && elements
        && operands.clone().all(|shape| shape.iter().all(|extent| *extent > 1))
}

/// Whether the devices' pieces of some split operand differ in size; true if nothing is split.
fn uneven(trial: &Trial, places: &[Place]) -> bool {
    let mut axes = trial
        .inputs
        .iter()
        .zip(places)
        .filter_map(|(input, place)| place.tensor_axis().map(|axis| input.shape.extent(axis)))
        .peekable();
    axes.peek().is_none() || axes.any(|extent| extent % WAYS != 0)
}
/// Whether the kernel runs such a row and its outputs join to the result. Labels are known before the kernel
/// runs: it may look at them.
fn holds(subject: &Subject<'_>, trial: &Trial, mesh: &DeviceMesh, row: &AxisAssignment) -> bool {
    let mut labels: Vec<TensorLayout> = Vec::new();
    for (meta, place) in trial.results.iter().zip(&row.results) {
        match label(meta, mesh, &Places::from_slice(&[*place])) {
            Ok(Some(layout)) => labels.push(layout),
            _ => return false,
        }
    }
    let operands: Vec<Places> = row.operands.iter().map(|place| Places::from_slice(&[*place])).collect();
    let Ok(Some((execution, _))) = Executor::new(subject, trial, mesh).execute(&operands, &labels, &[])
    else {
        return false;
    };
    execution.results.len() == labels.len()
        && labels.iter().zip(&execution.results).zip(&trial.wants).all(|((layout, shards), want)| {
            join("", layout, shards).is_ok_and(|got| want.first_difference(&got).is_none())
        })
}

/// All placements of several tensors on one mesh axis; empty if they are too many.
fn combinations(metas: &[TensorMeta]) -> Vec<Vec<Place>> {
    let mut all: Vec<Vec<Place>> = vec![Vec::new()];
    for meta in metas {
        let mut places = vec![Place::Replicated];
        places.extend(meta.shape.iter().enumerate().filter(|(_, n)| **n > 1).map(|(axis, _)| sharded(axis)));
        if meta.dtype != DType::Bool {
            places.push(Place::PARTIAL);
        }
        all = all
            .iter()
            .flat_map(|start| {
                places.iter().map(move |place| start.iter().copied().chain([*place]).collect::<Vec<Place>>())
            })
            .collect();
        if all.len() > TRIED {
            return Vec::new();
        }
    }
    all
}
