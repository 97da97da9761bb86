//! The words of a report.

use super::feasible::{Value, Why};
use super::report::{AxisReport, Candidate, Report, Verdict};
use super::{Mode, PlanRequest};
use crate::placement::{
    ALL_TRANSITIONS, DEFAULT_TRANSITIONS, Interleaved, Ragged, Transition, TransitionSet,
};
use crate::rule::{Role, RuleOperand};
use crate::text::clean;
use crate::{AxisType, DeviceMesh, Place, ReduceOp};
use std::any::Any;
use std::fmt::{self, Write as _};

/// More operands than this are not given a column each: only their changes are listed.
const MOST_COLUMNS: usize = 6;

/// A placement as candidates show it: `R`, `S(0)`, `P`, `P(max)`, `U`.
struct Short(Place);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Place::Replicated => f.write_str("R"),
            Place::Sharded(axis) => write!(f, "S({axis})"),
            Place::Partial(ReduceOp::Sum) => f.write_str("P"),
            Place::Partial(op) => write!(f, "P({op})"),
            Place::Unknown => f.write_str("U"),
            place @ Place::Custom(_) => write!(f, "{place}"),
        }
    }
}

/// The whole report.
pub(super) fn report(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}({}): {}", report.op, report.names.join(", "), headline(report))?;
    for operand in &report.operands {
        writeln!(f, "  {operand}")?;
    }
    for line in Detail(report).to_string().lines() {
        writeln!(f, "  {line}")?;
    }
    for (i, line) in report.fix.iter().enumerate() {
        writeln!(f, "  {} {line}", if i == 0 { "write:" } else { "      " })?;
    }
    match &report.block {
        Some(block) => write!(f, "  or:    {block}"),
        None => Ok(()),
    }
}

/// One line: how the call ends, and why.
pub(super) fn headline(report: &Report) -> String {
    let moved = list(report, report.moved.iter().copied());
    match report.verdict {
        Verdict::Runs if report.moved.is_empty() && report.exchanges() => {
            "exchanges elements of its operands between devices".to_owned()
        }
        Verdict::Runs if report.moved.is_empty() => "runs where its operands lie".to_owned(),
        Verdict::Runs => format!("reshards {moved}"),
        Verdict::Raises(_) if report.moved.is_empty() => {
            "the op itself would have to exchange elements of its operands, and the policy in force refuses every reshard"
                .to_owned()
        }
        Verdict::Raises(_) => {
            format!("{moved} would have to be resharded, and the policy in force refuses every reshard")
        }
        Verdict::Forbidden(axis) => {
            format!("{}, which the policy in force does not allow", needed(report, axis))
        }
        Verdict::Explicit(axis) => {
            format!(
                "{}, and an op never communicates by itself on an explicit mesh axis",
                needed(report, axis)
            )
        }
        Verdict::Stuck(_) => "no row of its rule can be reached from where the operands lie".to_owned(),
        Verdict::Broken => "its rule gives no usable rows".to_owned(),
    }
}

/// `rhs would have to be resharded by P>R (all_reduce)`.
fn needed(report: &Report, axis: usize) -> String {
    let committed = report.axes.get(axis).into_iter().flat_map(|axis| &axis.candidates);
    let Some(row) = committed.into_iter().find(|row| row.committed) else { return String::new() };
    if row.forbidden.is_empty() {
        let stages: Vec<_> = row.forbidden_stages.iter().map(|stage| stage.kind.name()).collect();
        return format!("the op itself would have to run {}", stages.join(", "));
    }
    let changes: Vec<String> = row
        .forbidden
        .iter()
        .map(|(i, kind, transition)| {
            let kind = kind.map_or("", |kind| kind.name());
            format!("{} would have to be resharded by {kind} ({transition})", name(report, *i))
        })
        .collect();
    changes.join(", ")
}

fn name(report: &Report, operand: usize) -> &str {
    report.names.get(operand).map_or("", |name| name)
}

fn list(report: &Report, operands: impl Iterator<Item = usize>) -> String {
    operands.map(|i| name(report, i)).collect::<Vec<_>>().join(", ")
}

/// Policy and candidates: what an error shows between operands and fix.
pub(super) struct Detail<'a>(pub(super) &'a Report);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.0.policy;
        let mode = match policy.mode {
            Mode::Silent => "silent",
            Mode::Warn => "warn",
            Mode::Raise => "raise",
        };
        writeln!(f, "policy: {mode}, allows {}", policy.allowed)?;
        self.0.axes.iter().try_for_each(|axis| table(self.0, axis, f))
    }
}

/// The candidates of one mesh axis in aligned columns.
fn table(report: &Report, axis: &AxisReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let kind = match axis.kind {
        AxisType::Auto => "",
        AxisType::Explicit => ", explicit: no op communicates by itself",
        AxisType::Manual => ", manual",
    };
    writeln!(f, "mesh axis '{}' of size {}{kind}", clean(&axis.name), axis.size)?;
    let wide = report.names.len() > MOST_COLUMNS;
    let mut head: Vec<String> = if wide { vec!["operands".to_owned()] } else { report.names.clone() };
    head.extend(["result", "needs", report.unit, "status"].map(str::to_owned));
    let mut lines = vec![head];
    lines.extend(axis.candidates.iter().map(|row| cells(report, axis, row, wide)));
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in &lines {
        let mut text = String::new();
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Costs are numbers: to the right. The last column is as long as it is.
            match columns - i {
                1 => write!(text, "  {cell}")?,
                2 => write!(text, "  {cell:>width$}")?,
                _ => write!(text, "  {cell:<width$}")?,
            }
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}

fn cells(report: &Report, axis: &AxisReport, row: &Candidate, wide: bool) -> Vec<String> {
    let pairs = || row.from.iter().zip(&row.row.operands).enumerate();
    let change = |(from, to): (&Place, &Place)| {
        if from == to { Short(*to).to_string() } else { format!("{}->{}", Short(*from), Short(*to)) }
    };
    let mut cells: Vec<String> = if wide {
        let changes: Vec<_> = pairs()
            .filter(|(_, (from, to))| from != to)
            .map(|(i, pair)| format!("{}: {}", name(report, i), change(pair)))
            .collect();
        vec![if changes.is_empty() { "as they are".to_owned() } else { changes.join(", ") }]
    } else {
        pairs().map(|(_, pair)| change(pair)).collect()
    };
    let results: Vec<_> = row.row.results.iter().map(|place| Short(*place).to_string()).collect();
    cells.push(results.join(", "));
    let moves = row.needs.iter().enumerate().filter(|(_, transition)| **transition != Transition::NoOp);
    let mut needs: Vec<String> =
        moves.map(|(i, transition)| format!("{transition}({})", name(report, i))).collect();
    let stages = row.row.stages.iter();
    needs.extend(stages.map(|stage| format!("{} of {} bytes inside", stage.kind.name(), stage.bytes)));
    cells.push(needs.join(", "));
    cells.push(row.score.map_or_else(|_| String::new(), |score| number(score.cost)));
    cells.push(status(report, axis, row));
    cells
}

/// At most four decimals, none for whole numbers; seconds are small and have a power of ten.
fn number(value: f64) -> String {
    if value > 0.0 && value < 0.01 {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn status(report: &Report, axis: &AxisReport, row: &Candidate) -> String {
    let score = match &row.score {
        Ok(score) => score,
        Err((value, why)) => return format!("infeasible: {}", obstacle(report, *value, *why)),
    };
    if !score.allowed {
        let mut parts: Vec<String> = row
            .forbidden
            .iter()
            .map(|(i, kind, transition)| match kind {
                Some(kind) if axis.kind != AxisType::Explicit => {
                    format!("{} of {}", kind.name(), name(report, *i))
                }
                _ => format!("{transition} of {}", name(report, *i)),
            })
            .collect();
        parts.extend(row.forbidden_stages.iter().map(|stage| format!("{} inside", stage.kind.name())));
        let assumed = if row.committed { "; assumed for what follows" } else { "" };
        return format!("not allowed: {}{assumed}", parts.join(", "));
    }
    if !row.committed {
        return String::new();
    }
    let moving = row.needs.iter().enumerate().filter(|(_, transition)| **transition != Transition::NoOp);
    let moving = list(report, moving.map(|(i, _)| i));
    match report.policy.mode {
        Mode::Raise if row.row.exchanges() && moving.is_empty() => {
            "refused: exchanges elements inside".to_owned()
        }
        _ if moving.is_empty() => "chosen".to_owned(),
        Mode::Raise => format!("refused: moves {moving}"),
        Mode::Silent | Mode::Warn => format!("chosen, moves {moving}"),
    }
}

/// What a row fails on.
fn obstacle(report: &Report, value: Value, why: Why) -> String {
    let who = match value {
        Value::Operand(i) => name(report, i).to_owned(),
        Value::Result(i) => format!("result {i}"),
    };
    let axis_name = |axis: usize| report.mesh_axes.get(axis).map_or_else(String::new, |name| clean(name));
    match why {
        Why::Unreachable { from: Place::Unknown, .. } => {
            format!("{who} is Unknown here, which nothing but a claim changes")
        }
        Why::Unreachable { from, to } => format!("no transition takes {who} from {from} to {to}"),
        Why::Empty { tensor_axis, extent, ways } => format!(
            "{who} has an extent of {extent} on tensor axis {tensor_axis}, {ways} devices would split it and some be left empty"
        ),
        Why::OutOfRange { place, ndim } => format!("{place} is out of range for {who} of {ndim} tensor axes"),
        Why::Misfit { place, extent } => format!("{place} does not fit the extent {extent} of {who}"),
        Why::Mixed { place, other, mesh_axis } => {
            format!(
                "{who} would be {place} beside {other} on mesh axis '{}', which do not commute",
                axis_name(mesh_axis)
            )
        }
        Why::Shared { place, other, mesh_axis } => format!(
            "{who} would be {place} beside {other} on mesh axis '{}', and a custom placement needs its tensor axis for itself",
            axis_name(mesh_axis)
        ),
        Why::Unknown { from } => format!("the row names Unknown and {who} is {from}"),
        Why::Whole { to } => format!("{who} lies on one device and is passed whole, not {to}"),
        Why::Written { from } => format!("{who} is written and stays {from}"),
        Why::Number { to } => format!("{who} is a number and cannot be {to}"),
        Why::Priceless { transition } => {
            format!("the cost model gives {transition} of {who} no cost that is finite and not negative")
        }
    }
}

/// Every operand with dtype, global shape and placements.
pub(super) fn operands(request: &PlanRequest<'_>) -> Vec<String> {
    let text = |(i, operand): (usize, &RuleOperand)| {
        let name = request.def.operand_name(request.groups, i);
        match operand.role {
            Role::Scalar => format!("{name}: a number"),
            Role::Single => format!("{name}: {} on one device", operand.meta),
            Role::Tensor => format!("{name}: {} {}", operand.meta, placements(request.mesh, &operand.places)),
            Role::Written => {
                format!("{name}: {} {}, written", operand.meta, placements(request.mesh, &operand.places))
            }
        }
    };
    request.operands.iter().enumerate().map(text).collect()
}

fn placements(mesh: &DeviceMesh, places: &[Place]) -> String {
    let parts: Vec<_> =
        mesh.axis_names().zip(places).map(|(name, place)| format!("{}: {place}", clean(name))).collect();
    format!("{{{}}}", parts.join(", "))
}

/// The names of an operand as an expression and as a variable: `xs[1]` and `xs_1` for one of a slice.
fn spelled(request: &PlanRequest<'_>, operand: usize) -> (String, String) {
    let name = request.def.operand_name(request.groups, operand);
    match name.split_once('.') {
        Some((list, i)) => (format!("{list}[{i}]"), format!("{list}_{i}")),
        None => (name.clone(), name),
    }
}

/// The line that redistributes an operand.
pub(super) fn transfer(request: &PlanRequest<'_>, operand: usize, places: &[Place]) -> String {
    let (value, variable) = spelled(request, operand);
    format!("let {variable} = {value}.transfer_to(&{})?;", mapping(request, &value, places))
}

fn mapping(request: &PlanRequest<'_>, value: &str, places: &[Place]) -> String {
    if places.iter().all(|place| *place == Place::Replicated) {
        return format!("DeviceMapping::replicated({value}.mesh())");
    }
    let places: Vec<_> = places.iter().map(|place| written(request, *place)).collect();
    format!("DeviceMapping::new({value}.mesh(), [{}])?", places.join(", "))
}

/// A placement as Rust; `None` for one of a user's own.
pub(super) fn spelled_place(place: Place) -> Option<String> {
    Some(match place {
        Place::Replicated => "Place::Replicated".to_owned(),
        Place::Sharded(axis) => format!("Place::Sharded({axis})"),
        Place::Partial(ReduceOp::Sum) => "Place::PARTIAL".to_owned(),
        Place::Partial(op) => format!("Place::Partial(ReduceOp::{op:?})"),
        Place::Unknown => "Place::Unknown".to_owned(),
        Place::Custom(custom) => {
            let (any, axis): (&dyn Any, usize) = (custom.placement(), place.tensor_axis().unwrap_or(0));
            if let Some(ragged) = any.downcast_ref::<Ragged>() {
                return Some(format!("Ragged::place({axis}, {:?})", ragged.sizes()));
            }
            let fused = any.downcast_ref::<Interleaved>()?;
            format!("Interleaved::place({axis}, {:?})", fused.parts())
        }
    })
}

/// A placement as Rust.
fn written(request: &PlanRequest<'_>, place: Place) -> String {
    match spelled_place(place) {
        Some(text) => text,
        None => {
            // Whatever it is, it was carried from an operand that has it, maybe on another tensor axis.
            let holder = request.operands.iter().enumerate().find_map(|(i, operand)| {
                let moved = |own: &Place| place.tensor_axis().map_or(*own, |axis| own.on_axis(axis)) == place;
                let axis = operand.places.iter().position(moved)?;
                Some((i, axis, operand.places.get(axis) == Some(&place)))
            });
            match holder {
                Some((i, axis, true)) => format!("{}.mapping().place({axis})", spelled(request, i).0),
                Some((i, axis, false)) => format!(
                    "{}.mapping().place({axis}).on_axis({})",
                    spelled(request, i).0,
                    place.tensor_axis().unwrap_or(0)
                ),
                None => format!("Place::custom({place})"),
            }
        }
    }
}

/// The block that allows these transitions.
pub(super) fn block(op: &str, allowed: TransitionSet) -> String {
    let policy = if allowed == DEFAULT_TRANSITIONS {
        "Policy::silent()".to_owned()
    } else if allowed == ALL_TRANSITIONS {
        "Policy::silent().all()".to_owned()
    } else {
        let kinds: Vec<_> = allowed.kinds().map(|kind| kind.path()).collect();
        format!("Policy::silent().allow(TransitionSet::of(&[{}]))", kinds.join(", "))
    };
    format!("auto_reshard({policy}, || {op}(..))")
}

/// The lines that let the policy decide on every mesh axis.
pub(super) fn relabel(request: &PlanRequest<'_>) -> Vec<String> {
    let types: Vec<&str> = request.mesh.shape().iter().map(|_| "AxisType::Auto").collect();
    let types = types.join(", ");
    let tensors = request.operands.iter().enumerate().filter(|(_, operand)| operand.role == Role::Tensor);
    tensors
        .map(|(i, _)| {
            let (value, variable) = spelled(request, i);
            format!("let {variable} = {value}.on(&{value}.mesh().with_axis_types([{types}])?)?;")
        })
        .collect()
}

/// What to write where no row can be reached on a mesh axis.
pub(super) fn unstick(request: &PlanRequest<'_>, axis: usize) -> Vec<String> {
    let tensors = || request.operands.iter().enumerate().filter(|(_, operand)| operand.role == Role::Tensor);
    let unknown: Vec<String> = tensors()
        .filter(|(_, operand)| operand.places.get(axis) == Some(&Place::Unknown))
        .map(|(i, _)| {
            let (value, variable) = spelled(request, i);
            format!(
                "let {variable} = {value}.rebind_mapping(&mapping, shape)?; // says how its shards make up the whole"
            )
        })
        .collect();
    if !unknown.is_empty() {
        return unknown;
    }
    let mut written =
        request.operands.iter().enumerate().filter(|(_, operand)| operand.role == Role::Written);
    if let Some((i, target)) = written.next() {
        let (target_name, _) = spelled(request, i);
        let sources = request.operands.iter().enumerate().filter(|(_, operand)| {
            matches!(operand.role, Role::Tensor | Role::Single) && operand.places != target.places
        });
        return sources
            .map(|(i, _)| {
                let (value, variable) = spelled(request, i);
                format!("let {variable} = {value}.transfer_to({target_name}.tensor_layout().mapping())?;")
            })
            .collect();
    }
    tensors()
        .filter(|(_, operand)| operand.places.iter().any(|place| *place != Place::Replicated))
        .map(|(i, operand)| {
            let whole: Vec<Place> = operand.places.iter().map(|_| Place::Replicated).collect();
            transfer(request, i, &whole)
        })
        .collect()
}
