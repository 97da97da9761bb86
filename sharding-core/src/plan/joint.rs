//! Picking the rows of all mesh axes together.

use super::feasible::stage_price;
use super::pick::{Choice, Picker};
use super::{Mode, PlanRequest, PlannerKind, in_place};
use crate::mapping::Places;
use crate::redistribute::Program;
use crate::rule::{Role, RuleOperand};
use crate::{AxisType, DeviceMapping, Place, TensorLayout};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// So many combinations of rows are priced at most; what was best by then is taken. The first one is the per-axis plan.
const MAX_COMBINATIONS: usize = 4096;

/// So often the rule is asked at most: where a late mesh axis has no row that is allowed, no combination becomes whole.
const MAX_ASKED: usize = 4 * MAX_COMBINATIONS;

/// A combination replaces another only if it is cheaper by more than rounding.
const MARGIN: f64 = 1.0 - 1e-9;

/// The number of a row for each mesh axis; `None` where the planner in force picks axis by axis, or where no
/// combination is allowed, so that per-axis planning is to say why.
///
/// Depth first over the rows of one mesh axis after the other, each axis in the order of per-axis planning: the first
/// combination is the per-axis plan, so the result is never dearer. A branch ends where what is certain of its price, the
/// stages of its rows, reaches the best price so far; a combination is given up where the operands counted so far do.
pub(super) fn path(request: &PlanRequest<'_>) -> Option<SmallVec<[usize; 4]>> {
    if request.planner == PlannerKind::PerAxis {
        return None;
    }
    let picker = Picker::new(request).ok()?;
    let mut search = Search {
        request,
        prices: request.operands.iter().map(|_| FxHashMap::default()).collect(),
        rows: SmallVec::new(),
        best: None,
        price: f64::INFINITY,
        left: MAX_COMBINATIONS,
        questions: MAX_ASKED,
    };
    search.visit(&picker, 0, 0.0);
    search.best
}

struct Search<'a> {
    request: &'a PlanRequest<'a>,
    /// For each operand what it costs to bring it to placements.
    prices: Vec<FxHashMap<Places, f64>>,
    /// The rows down to here.
    rows: SmallVec<[usize; 4]>,
    best: Option<SmallVec<[usize; 4]>>,
    price: f64,
    left: usize,
    questions: usize,
}

impl Search<'_> {
    fn visit(&mut self, picker: &Picker<'_>, axis: usize, stages: f64) {
        if axis == self.request.mesh.ndim() {
            return self.weigh(picker, stages);
        }
        if self.questions == 0 {
            return;
        }
        self.questions -= 1;
        let mut asked = picker.clone();
        // A rule that refuses after these rows: no combination begins with them.
        if asked.ask(axis).is_err() {
            return;
        }
        let view = asked.view(axis);
        let raise = self.request.policy.mode == Mode::Raise;
        let mut choices: SmallVec<[(Choice, f64); 8]> = SmallVec::new();
        for (row, assignment) in asked.rows().iter().enumerate() {
            let Ok(score) = view.score(assignment) else { continue };
            if score.allowed && !(raise && score.moves) {
                // What an exchange moves depends on the rows of all mesh axes: nothing of it is certain here.
                let (certain, _) = in_place::stages(assignment, |row| view.stage_price(row));
                choices.push((Choice { row, score }, certain));
            }
        }
        // Stable: ties keep the rule's order, as per-axis planning does.
        choices.sort_by(|(a, _), (b, _)| {
            a.score.cost.total_cmp(&b.score.cost).then(a.score.moved.cmp(&b.score.moved))
        });
        for (choice, stage) in choices {
            if self.left == 0 || stages + stage >= self.price * MARGIN {
                continue;
            }
            let mut next = asked.clone();
            next.commit(axis, choice);
            self.rows.push(choice.row);
            self.visit(&next, axis + 1, stages + stage);
            self.rows.pop();
        }
    }

    /// Prices a whole combination, as [`CallPlan::price`](super::CallPlan::price) does.
    fn weigh(&mut self, picker: &Picker<'_>, stages: f64) {
        self.left = self.left.saturating_sub(1);
        let limit = self.price * MARGIN;
        let exchanges = in_place::exchanges(picker.committed());
        let mut total = stages;
        let mut read: SmallVec<[TensorLayout; 4]> = SmallVec::new();
        for (i, operand) in picker.operands().iter().enumerate() {
            if exchanges {
                let Some(layout) = self.read(i, operand) else { return };
                total += self.moved(i, layout.places(), operand.role);
                read.push(layout);
            } else {
                total += self.moved(i, &operand.places, operand.role);
            }
            if total >= limit && self.best.is_some() {
                return;
            }
        }
        if exchanges {
            total += self.exchanged(picker, &read);
        }
        if total < limit || self.best.is_none() && total.is_finite() {
            self.price = total;
            self.best = Some(self.rows.clone());
        }
    }

    /// Where the exchanges of a combination read an operand.
    fn read(&mut self, i: usize, operand: &RuleOperand) -> Option<TensorLayout> {
        let mesh = self.request.mesh;
        let lay = |places: &[Place]| {
            let mapping = DeviceMapping::new(mesh, places).ok()?;
            TensorLayout::new(operand.meta.dtype, &operand.meta.shape, mapping).ok()
        };
        let wanted = lay(&operand.places)?;
        let present = self.request.operands.get(i).filter(|present| present.role == Role::Tensor);
        let Some(present) = present.filter(|present| present.places != operand.places) else {
            return Some(wanted);
        };
        // On an explicit mesh axis what the rows want must come about without communication, read in place or not.
        if mesh.axis_types().contains(&AxisType::Explicit)
            && !self.moved(i, &operand.places, operand.role).is_finite()
        {
            return None;
        }
        let in_place = in_place::read_at(&lay(&present.places)?, &wanted);
        Some(in_place.unwrap_or(wanted))
    }

    /// What the exchanges of a combination cost that read operands there.
    fn exchanged(&self, picker: &Picker<'_>, read: &[TensorLayout]) -> f64 {
        let PlanRequest { mesh, cost, results, .. } = *self.request;
        let rows = picker.committed();
        let known = || {
            let layouts = results.iter().zip(picker.results()).map(|(meta, places)| {
                TensorLayout::new(meta.dtype, &meta.shape, DeviceMapping::new(mesh, places).ok()?).ok()
            });
            let wanted: SmallVec<[Places; 4]> =
                picker.operands().iter().map(|operand| operand.places.clone()).collect();
            let axes = in_place::staged_axes(rows, &wanted, read);
            in_place::price(in_place::maps(rows)?, read, &layouts.collect::<Option<Vec<_>>>()?, &axes, cost)
        };
        let score = |(axis, row)| in_place::stages(row, |row| stage_price(row, mesh, axis, cost)).1;
        known().unwrap_or_else(|| rows.iter().enumerate().map(score).sum())
    }

    /// What it costs to bring an operand to these placements; infinite where it cannot be done.
    fn moved(&mut self, i: usize, places: &[Place], role: Role) -> f64 {
        let Some(known) = self.prices.get_mut(i).filter(|_| role == Role::Tensor) else { return 0.0 };
        if let Some(price) = known.get(places) {
            return *price;
        }
        let price = price(self.request, i, places).unwrap_or(f64::INFINITY);
        known.insert(places.into(), price);
        price
    }
}

fn price(request: &PlanRequest<'_>, i: usize, places: &[Place]) -> Option<f64> {
    let operand = request.operands.get(i)?;
    if operand.places.as_slice() == places {
        return Some(0.0);
    }
    let lay = |places: &[Place]| {
        let mapping = DeviceMapping::new(request.mesh, places).ok()?;
        TensorLayout::new(operand.meta.dtype, &operand.meta.shape, mapping).ok()
    };
    let program = Program::search(&lay(&operand.places)?, &lay(places)?, request.cost).ok()?;
    let explicit = |axis: &usize| request.mesh.axis_types().get(*axis) == Some(&AxisType::Explicit);
    let refused = program.steps.iter().any(|step| step.kind.communicates() && step.axes.iter().any(explicit));
    (!refused).then_some(program.cost)
}
