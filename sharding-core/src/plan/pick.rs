//! Picking a row on every mesh axis.

use super::feasible::{AxisView, Score, settled};
use super::{CostModel, Mode, PlannerKind, Policy, joint, report};
use crate::mapping::Places;
use crate::op::ErasedRows;
use crate::op::{Groups, OpArgs, OpDef};
use crate::rule::{AxisAssignment, Role, Rows, RuleCx, RuleOperand};
use crate::{AxisType, DeviceMesh, Error, ErrorKind, Result, TensorMeta};
use smallvec::SmallVec;

/// A call to be planned. All operands' meshes agree already; `operands` hold the placements as they are.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The op.
    pub def: &'static OpDef,
    /// Its rule: the registered one, or what the scope replaces it by.
    pub rows: ErasedRows,
    /// The plain arguments.
    pub args: &'a dyn OpArgs,
    /// The op's mesh.
    pub mesh: &'a DeviceMesh,
    /// The operands, flat.
    pub operands: &'a [RuleOperand],
    /// Their grouping.
    pub groups: Groups<'a>,
    /// dtype and global shape of every result.
    pub results: &'a [TensorMeta],
    /// The policy in force.
    pub policy: Policy,
    /// The cost model in force.
    pub cost: &'a dyn CostModel,
    /// How rows are picked where there are several mesh axes.
    pub planner: PlannerKind,
}

/// The chosen rows.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The row of every mesh axis.
    pub rows: SmallVec<[AxisAssignment; 2]>,
    /// The placements that every operand must have.
    pub operands: SmallVec<[Places; 4]>,
    /// The placements of every result.
    pub results: SmallVec<[Places; 2]>,
    /// The operands that move.
    pub moved: SmallVec<[usize; 4]>,
    /// The score: the sum over mesh axes of the chosen rows' costs.
    pub cost: f64,
    /// The cost of the chosen row on every mesh axis.
    pub axis_costs: SmallVec<[f64; 2]>,
}

/// Picks the cheapest allowed row on every mesh axis, in order.
///
/// On an axis the rows are ordered by cost, then by the number of operands they move, then by the rule's order. The first
/// whose changes are all allowed is committed before the next axis is asked about. Where none is, the best row within
/// the default transitions, else the best, is committed in its place so that the report shows all axes, and the call
/// is refused.
///
/// Under [`PlannerKind::Joint`] the rows of all mesh axes are picked together, by what their redistributions cost.
///
/// # Errors
/// [`ErrorKind::Sharding`] with the report, if no row is feasible or the policy forbids what has to move, if a mesh
/// axis is `Manual`, or if the rule gives no rows or rows of wrong lengths; what the rule says, if it refuses.
pub fn plan(request: &PlanRequest<'_>) -> Result<Plan> {
    if let Some(axis) = request.mesh.axis_types().iter().position(|kind| *kind == AxisType::Manual) {
        return Err(report::manual(request, axis));
    }
    let mut picker = Picker::new(request)?;
    let mut refused = false;
    let path = joint::path(request);
    for axis in 0..request.mesh.ndim() {
        picker.ask(axis)?;
        let Some(choice) = picker.choose_along(path.as_deref(), axis) else {
            return Err(report::refusal(request));
        };
        refused |= !choice.score.allowed || (request.policy.mode == Mode::Raise && choice.score.moves);
        picker.commit(axis, choice);
    }
    if refused {
        return Err(report::refusal(request));
    }
    Ok(picker.finish())
}

/// A row picked on one mesh axis.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    /// Its number among the rule's rows.
    pub(super) row: usize,
    pub(super) score: Score,
}

/// The state between two mesh axes.
#[derive(Clone)]
pub(super) struct Picker<'a> {
    request: &'a PlanRequest<'a>,
    operands: SmallVec<[RuleOperand; 4]>,
    results: SmallVec<[Places; 2]>,
    committed: SmallVec<[AxisAssignment; 2]>,
    /// The rows of the axis asked about last; their memory is used again on the next.
    rows: Rows,
    costs: SmallVec<[f64; 2]>,
}

impl<'a> Picker<'a> {
    /// Before the first mesh axis.
    pub(super) fn new(request: &'a PlanRequest<'a>) -> Result<Self> {
        let ndim = request.mesh.ndim();
        if let Some(i) = request.operands.iter().position(|operand| operand.places.len() != ndim) {
            let name = request.def.operand_name(request.groups, i);
            let message = format!("{name} has not one placement per mesh axis of {}", request.mesh);
            return Err(Error::new(ErrorKind::Internal, message).with_op(request.def.name));
        }
        Ok(Self {
            request,
            operands: request.operands.iter().cloned().collect(),
            results: request.results.iter().map(|_| Places::new()).collect(),
            committed: SmallVec::new(),
            rows: Rows::new(),
            costs: SmallVec::new(),
        })
    }

    /// Asks the rule for its rows on a mesh axis.
    pub(super) fn ask(&mut self, axis: usize) -> Result<()> {
        let request = self.request;
        let cx = RuleCx {
            axis,
            mesh_shape: request.mesh.shape(),
            operands: &self.operands,
            groups: request.groups,
            results: request.results,
            committed: &self.committed,
        };
        self.rows.clear();
        let asked = (request.rows)(&cx, request.args.as_any(), &mut self.rows);
        asked.map_err(|error| report::unplaced(request, axis, error))?;
        self.check_rows().map_err(|error| report::located(request, axis, error))
    }

    fn check_rows(&self) -> Result<()> {
        let (operands, results) = (self.request.operands.len(), self.request.results.len());
        if self.rows.is_empty() {
            return Err(Error::new(ErrorKind::Sharding, "the op's rule gives no row for this call")
                .with_fix("let the rule add at least replicated_rows(cx, rows)"));
        }
        let fits = |row: &&AxisAssignment| row.operands.len() == operands && row.results.len() == results;
        match self.rows.iter().find(|row| !fits(row)) {
            None => Ok(()),
            Some(row) => Err(Error::new(
                ErrorKind::Sharding,
                format!(
                    "the op's rule gives the row {row} of {} operands and {} results, the call has {operands} and {results}",
                    row.operands.len(),
                    row.results.len()
                ),
            )
            .with_fix("let the rule add one placement per operand and per result")),
        }
    }

    /// The rows of the axis asked about last.
    pub(super) fn rows(&self) -> &[AxisAssignment] {
        &self.rows
    }

    /// The mesh axis as it stands.
    pub(super) fn view(&self, axis: usize) -> AxisView<'_> {
        AxisView { request: self.request, axis, operands: &self.operands, results: &self.results }
    }

    /// The row to commit on the axis asked about last; `None` where no row is feasible.
    pub(super) fn choose(&self, axis: usize) -> Option<Choice> {
        let view = self.view(axis);
        let (mut allowed, mut by_default, mut any) = (None, None, None);
        for (row, assignment) in self.rows.iter().enumerate() {
            let Ok(score) = view.score(assignment) else { continue };
            let choice = Choice { row, score };
            let offer = |best: &mut Option<Choice>, may: bool| {
                if may && best.is_none_or(|best| score.beats(&best.score)) {
                    *best = Some(choice);
                }
            };
            offer(&mut allowed, score.allowed);
            offer(&mut by_default, score.by_default);
            offer(&mut any, true);
        }
        allowed.or(by_default).or(any)
    }

    /// The row that a path of all mesh axes picks on the axis asked about last; where there is no path,
    /// [`Picker::choose`].
    pub(super) fn choose_along(&self, path: Option<&[usize]>, axis: usize) -> Option<Choice> {
        let Some(path) = path else { return self.choose(axis) };
        let row = *path.get(axis)?;
        let score = self.view(axis).score(self.rows.get(row)?).ok()?;
        Some(Choice { row, score })
    }

    /// Makes a row of the axis asked about last part of the plan.
    pub(super) fn commit(&mut self, axis: usize, choice: Choice) {
        let Some(row) = self.rows.get(choice.row) else { return };
        for (operand, to) in self.operands.iter_mut().zip(&row.operands) {
            let role = operand.role;
            if let Some(place) = operand.places.get_mut(axis) {
                *place = settled(role, *place, *to);
            }
        }
        for (places, to) in self.results.iter_mut().zip(&row.results) {
            places.push(*to);
        }
        self.committed.push(row.clone());
        self.costs.push(choice.score.cost);
    }

    /// The committed rows.
    pub(super) fn committed(&self) -> &[AxisAssignment] {
        &self.committed
    }

    /// The placements of the results on the committed mesh axes.
    pub(super) fn results(&self) -> &[Places] {
        &self.results
    }

    /// The placements of the operands, as far as committed.
    pub(super) fn operands(&self) -> &[RuleOperand] {
        &self.operands
    }

    fn finish(self) -> Plan {
        let present = self.request.operands.iter().zip(&self.operands).enumerate();
        let moved = present
            .filter(|(_, (before, after))| before.role == Role::Tensor && before.places != after.places)
            .map(|(i, _)| i)
            .collect();
        Plan {
            rows: self.committed,
            moved,
            operands: self.operands.into_iter().map(|operand| operand.places).collect(),
            results: self.results,
            cost: self.costs.iter().sum(),
            axis_costs: self.costs,
        }
    }
}
