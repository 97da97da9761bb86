//! Likely missing rows: placements that no row names, though the kernel is right for them.

use super::Subject;
use super::execute::{Executor, join, label};
use super::trial::Trial;
use crate::mapping::Places;
use crate::placement::sharded;
use crate::rule::{AxisAssignment, Role};
use crate::{DType, DeviceMesh, Place, Result, TensorLayout, TensorMeta};

/// The most operands of an op that hints are looked for.
const OPERANDS: usize = 3;
/// The most placements of operands, or of results, that are tried.
const TRIED: usize = 400;
/// The most hints of one op.
const HINTS: usize = 12;

/// Adds rows on one mesh axis of 2 that hold for a case and its variants, and whose operands no known row names.
pub(super) fn add(
    subject: &Subject<'_>,
    own: &Trial,
    others: &[Trial],
    known: &[AxisAssignment],
    hints: &mut Vec<String>,
) -> Result<()> {
    let changes = own.roles.iter().any(|role| matches!(role, Role::Written | Role::Scalar));
    // Where there is nothing to compare, everything holds.
    let empty = own.inputs.iter().any(|input| input.values.is_empty())
        || own.results.iter().any(|result| result.shape.elements() < 2);
    if own.inputs.len() > OPERANDS || changes || empty {
        return Ok(());
    }
    let mesh = DeviceMesh::simulated(subject.kind, [2], ["x"])?;
    let operands: Vec<TensorMeta> = own.case.operands.iter().map(|operand| operand.meta.clone()).collect();
    // Variants that broadcast where the case does not, or have nothing to split, would let too much pass.
    let alike = |trial: &&Trial| {
        trial.case.operands.iter().zip(&operands).all(|(operand, meta)| {
            let pairs = operand.meta.shape.iter().zip(meta.shape.iter());
            pairs.clone().all(|(a, b)| *a > 1 || b == a) && pairs.clone().any(|(a, b)| a != b)
        })
    };
    let witnesses: Vec<&Trial> = std::iter::once(own).chain(others.iter().filter(alike).take(3)).collect();
    for places in combinations(&operands) {
        if known.iter().any(|row| row.operands.as_slice() == places.as_slice()) {
            continue;
        }
        for results in combinations(&own.results) {
            // An op without a split or partial operand has nothing to say.
            let row = AxisAssignment::new(places.iter().copied(), results.iter().copied());
            let holds = |trial: &&Trial| holds(subject, trial, &mesh, &row);
            if hints.len() < HINTS && witnesses.iter().all(holds) {
                let text = row.to_string();
                if !hints.contains(&text) {
                    hints.push(text);
                }
                break;
            }
        }
    }
    Ok(())
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
