//! When a case passes.

use super::call::Call;
use super::forced;
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::spelling::{codes, places, policy};
use sharding_core::op::Groups;
use sharding_core::plan::CallPlan;
use sharding_core::rule::{Role, Rows, RuleCx, RuleOperand};
use sharding_core::{Place, Policy};

/// Rounding of costs.
const ROUNDING: f64 = 1e-6;

/// A verdict, and what a reader should know of a case that passed.
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) note: Option<&'static str>,
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, note: None }
    }
}

pub(super) fn compare(case: &Node<'_>, call: &Call) -> Parsed<Outcome> {
    let policy = policy(&case.field("policy")?)?;
    let want = case.field("want")?;
    if want.has("path") {
        return Ok(sound_or_error(call, policy).into());
    }
    if let Some(error) = want.optional("error") {
        let stage = error.field("stage")?;
        return match stage.text()? {
            "rule" => Ok(Verdict::error(&run(call, policy)).into()),
            "plan" => wants_error(&want, call, policy),
            _ => Err(stage.expected("plan or rule")),
        };
    }
    if case.optional("sound").map_or(Ok(true), |sound| sound.truth())? {
        wants_plan(&want, call, policy)
    } else {
        Ok(sound_or_error(call, policy).into())
    }
}

/// The results of a run, as text.
fn run(call: &Call, policy: Policy) -> Result<String, String> {
    let results = call.run(policy, None).map_err(|error| error.to_string())?;
    Ok(results.iter().map(|result| result.layout().to_string()).collect::<Vec<_>>().join(", "))
}

/// Passed if the call runs and gives what it gives on one device.
fn sound(call: &Call, policy: Policy) -> Verdict {
    let outcome = call.run(policy, None).and_then(|results| call.difference(&results));
    match outcome {
        Ok(None) => Verdict::Passed,
        Ok(Some(difference)) => Verdict::failed("the result on one device", difference),
        Err(error) => Verdict::failed("a result", error.to_string()),
    }
}

fn sound_or_error(call: &Call, policy: Policy) -> Verdict {
    match call.run(policy, None) {
        Ok(_) => sound(call, policy),
        Err(_) => Verdict::Passed,
    }
}

/// Their planner refuses: ours does too, unless a row that they do not have makes a sound plan which the policy allows.
fn wants_error(want: &Node<'_>, call: &Call, policy: Policy) -> Parsed<Outcome> {
    let Ok(plan) = call.plan(policy) else { return Ok(Verdict::Passed.into()) };
    if !has_extra_row(want, call, &plan)? {
        return Ok(Verdict::failed("an error", describe(&plan)).into());
    }
    let note = Some("plans by a row that they do not have, where they refuse");
    Ok(Outcome { verdict: sound(call, policy), note })
}

/// Whether a chosen row is none of the feasible ones that the report of their refusal lists, or our rule has more rows
/// than theirs.
fn has_extra_row(want: &Node<'_>, call: &Call, plan: &CallPlan) -> Parsed<bool> {
    let rows = want.optional("rows").map(|rows| rows.size()).transpose()?;
    let more = rows_by_axis(call, plan).iter().any(|ours| rows.is_none_or(|theirs| *ours > theirs));
    let Some(ranked) = want.optional("report_plan").map(|report| report.field("ranked")).transpose()? else {
        return Ok(more);
    };
    for (row, ranked) in plan.plan().rows.iter().zip(ranked.list()?) {
        let known = ranked.list_of(|row| {
            let parts = row.list()?;
            let [_, inputs, outputs] = &parts[..] else {
                return Err(row.expected("cost, inputs and outputs"));
            };
            Ok((places(inputs)?.ok(), places(outputs)?.ok()))
        })?;
        let own = (Some(row.operands.to_vec()), Some(row.results.to_vec()));
        if !known.contains(&own) {
            return Ok(true);
        }
    }
    Ok(more)
}

/// How many rows our rule gives on each mesh axis, asked as the planner did.
fn rows_by_axis(call: &Call, plan: &CallPlan) -> Vec<usize> {
    let flat = call.flat();
    let groups: Vec<u16> = call.groups();
    let results: Vec<_> = plan.results().iter().map(|layout| layout.meta().clone()).collect();
    (0..call.mesh.ndim())
        .map(|axis| {
            let operands: Vec<RuleOperand> = plan
                .operands()
                .iter()
                .zip(&flat)
                .enumerate()
                .map(|(i, (layout, given))| {
                    let role = match given {
                        None => Role::Scalar,
                        Some(given) if given.single => Role::Single,
                        Some(_) if call.writes() && i == 0 => Role::Written,
                        Some(_) => Role::Tensor,
                    };
                    // Committed before the axis, present from it on.
                    let present = |at: usize| match given {
                        Some(given) if !given.single => given.layout.mapping().place(at),
                        _ => Place::Replicated,
                    };
                    let places = (0..call.mesh.ndim())
                        .map(|at| if at < axis { layout.mapping().place(at) } else { present(at) })
                        .collect();
                    RuleOperand { meta: layout.meta().clone(), places, role }
                })
                .collect();
            let cx = RuleCx {
                axis,
                mesh_shape: call.mesh.shape(),
                operands: &operands,
                groups: Groups(&groups),
                results: &results,
                committed: plan.plan().rows.get(..axis).unwrap_or(&[]),
            };
            let mut rows = Rows::new();
            match (call.def.rows)(&cx, call.args().as_any(), &mut rows) {
                Ok(()) => rows.len(),
                Err(_) => 0,
            }
        })
        .collect()
}

/// Their plan, on our terms.
struct Theirs {
    inputs: Vec<Vec<Place>>,
    outputs: Vec<Vec<Place>>,
    costs: Vec<f64>,
    rows: usize,
}

impl Theirs {
    fn read(want: &Node<'_>) -> Parsed<Self> {
        let all =
            |node: Node<'_>| node.list_of(|node| places(node)?.map_err(|_| node.expected("placements")));
        Ok(Self {
            inputs: all(want.field("inputs")?)?,
            outputs: all(want.field("outputs")?)?,
            costs: want.field("cost")?.list_of(Node::number)?,
            rows: want.field("rows")?.size()?,
        })
    }
    fn text(&self) -> String {
        let list =
            |places: &[Vec<Place>]| places.iter().map(|places| codes(places)).collect::<Vec<_>>().join(" ");
        format!("{} -> {} for {:?}", list(&self.inputs), list(&self.outputs), self.costs)
    }
}

fn describe(plan: &CallPlan) -> String {
    let list = |layouts: &[sharding_core::TensorLayout]| {
        layouts.iter().map(|layout| codes(layout.places())).collect::<Vec<_>>().join(" ")
    };
    format!(
        "{} -> {} for {:?}",
        list(plan.operands()),
        list(plan.results()),
        plan.plan().axis_costs.as_slice()
    )
}

fn wants_plan(want: &Node<'_>, call: &Call, policy: Policy) -> Parsed<Outcome> {
    let theirs = Theirs::read(want)?;
    let plan = match call.plan(policy) {
        Ok(plan) => plan,
        Err(error) if call.writes() => return Ok(Verdict::failed(theirs.text(), error.to_string()).into()),
        Err(error) => {
            return Ok(unless_they_are_wrong(
                call,
                &theirs,
                Verdict::failed(theirs.text(), error.to_string()),
            ));
        }
    };
    let (ours, total) = (plan.plan().cost, theirs.costs.iter().sum::<f64>());
    let same_rows = rows_by_axis(call, &plan).iter().all(|rows| *rows == theirs.rows);
    let dearer = ours > total + ROUNDING && !greedily_cheaper(&plan, &theirs);
    let other = (ours - total).abs() <= ROUNDING && same_rows && !same(call, &plan, &theirs);
    if !dearer && !other {
        // What a buffer holds afterwards is compared elsewhere; here its placements are.
        return Ok(if call.writes() { Verdict::Passed } else { sound(call, policy) }.into());
    }
    let failed = Verdict::failed(theirs.text(), describe(&plan));
    if call.writes() {
        return Ok(failed.into());
    }
    let judged = unless_they_are_wrong(call, &theirs, failed);
    Ok(Outcome { verdict: judged.verdict.and(|| sound(call, policy)), note: judged.note })
}

/// Whether the first mesh axis on which costs differ is one on which ours is cheaper: the planner is greedy, so a better
/// row there may cost more later.
fn greedily_cheaper(plan: &CallPlan, theirs: &Theirs) -> bool {
    let pairs = plan.plan().axis_costs.iter().zip(&theirs.costs);
    pairs
        .into_iter()
        .find(|(ours, theirs)| (*ours - *theirs).abs() > ROUNDING)
        .is_some_and(|(ours, theirs)| ours < theirs)
}

/// Whether inputs and outputs are equal; operands on one device are passed whole by both.
fn same(call: &Call, plan: &CallPlan, theirs: &Theirs) -> bool {
    let flat = call.flat();
    let inputs = plan.operands().iter().zip(&theirs.inputs).zip(&flat);
    let inputs = inputs.into_iter().all(|((ours, theirs), given)| {
        given.is_some_and(|given| given.single) || ours.places() == theirs.as_slice()
    });
    let outputs =
        plan.results().iter().map(|layout| layout.places()).eq(theirs.outputs.iter().map(Vec::as_slice));
    inputs && plan.operands().len() == theirs.inputs.len() && outputs
}

/// Waives a difference from a plan that is wrong itself: values, or shards of other sizes than their label says.
fn unless_they_are_wrong(call: &Call, theirs: &Theirs, failed: Verdict) -> Outcome {
    if forced::is_wrong(call, &theirs.inputs, &theirs.outputs) {
        return Outcome { verdict: Verdict::Passed, note: Some("differs from a plan that is not sound") };
    }
    failed.into()
}
