//! Rules are checked, not trusted.
//!
//! [`check_rule`] takes every case of an op, variants of it with extents of 0, 1, 5, 6 and 7, and every row that its rule
//! gives on meshes of 2, 3 and 2x2 devices for operands placed in many ways. For each row it cuts the inputs as the
//! row says (Partial parts are unequal and of both signs), runs the kernel or the staged function on every device,
//! joins the outputs as the row says, and compares with the kernel on whole inputs. Rows that a plan would not choose
//! because a shard becomes empty are checked as well: an operand that does not move may be empty already.
//!
//! ```ignore
//! sharding_core::check_rule!(my_op); // a #[test] on the backend cpu
//! ```

mod ask;
mod execute;
mod hint;
mod report;
mod trial;

pub use report::{RuleFailure, RuleReport};

use crate::backend::{Backend, backend_of};
use crate::op::{Case, Cases, ErasedKernel, ErasedRows, OpDef, Registry};
use crate::rule::{AxisAssignment, Role};
use crate::{BackendKind, Device, DeviceMesh, Error, ErrorKind, Place, Result};
use ask::{Present, ask, questions};
use execute::{Answer, Executor};
use rustc_hash::FxHashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use trial::{Trial, roles, variants};

/// The most failures that one report lists.
const FAILURES: usize = 16;
/// The most pairs of rows without custom placements, and of those with some, that are run for one of the op's own cases,
/// and for one variant.
const PAIRS: (usize, usize) = (400, 64);
/// The most present placements that each axis of a 2x2 mesh is asked with, likewise.
const PRESENTS: (usize, usize) = (32, 12);

/// Checks the rule of an op with the kernels of one backend.
///
/// # Errors
/// If it cannot be checked: no case, no such backend. What is wrong with the rule is in the report.
pub fn check_rule(def: &'static OpDef, kind: BackendKind) -> Result<RuleReport> {
    check_rule_with(def, kind, def.rows)
}

/// Checks another rule for an op.
///
/// # Errors
/// As [`check_rule`].
pub fn check_rule_with(def: &'static OpDef, kind: BackendKind, rows: ErasedRows) -> Result<RuleReport> {
    let backend = &**backend_of(kind)?;
    let kernel = Registry::get()?.kernel(def.name, kind).unwrap_or(def.kernel);
    let subject = Subject { def, rows, kernel, backend, device: Device::new(kind, 0), kind };
    Checker::new(&subject).run().map_err(|error| error.with_op(def.name))
}

/// Checks the rule of every registered op.
///
/// # Errors
/// What the registry or the backend say. An op that cannot be checked is a failure in its report.
pub fn check_all_rules(kind: BackendKind) -> Result<Vec<RuleReport>> {
    backend_of(kind)?;
    Registry::get()?
        .ops()
        .map(|def| {
            check_rule(def, kind).or_else(|error| {
                let mut report = RuleReport::new(def, kind);
                report.failures.push(RuleFailure {
                    op: def.name,
                    at: def.at,
                    row: String::new(),
                    mesh: "any size".to_owned(),
                    case: "none".to_owned(),
                    device: None,
                    detail: error.to_string(),
                });
                Ok(report)
            })
        })
        .collect()
}

/// The body of [`check_rule!`](crate::check_rule): panics with the report if the rule of the op of that name is not
/// sound; prints `SKIPPED: reason` where the backend has no device.
#[allow(clippy::panic, reason = "it is the body of a test")]
pub fn assert_rule(name: &str, kind: BackendKind) {
    let name = name.rsplit("::").next().unwrap_or(name).trim();
    let checked = backend_of(kind).and_then(|backend| {
        if let Err(error) = backend.devices() {
            println!("SKIPPED: check_rule({name}) on {kind}: {error}");
            return Ok(None);
        }
        check_rule(Registry::get()?.op(name)?, kind).map(Some)
    });
    match checked {
        Ok(None) => {}
        Ok(Some(report)) if report.is_sound() => println!("{report}"),
        Ok(Some(report)) => panic!("{report}"),
        Err(error) => panic!("{error}"),
    }
}

/// Makes a test for each op named that checks its rule by [`check_rule`](crate::conformance::rule::check_rule), on
/// the backend cpu unless another is given. Once per module.
///
/// ```ignore
/// sharding_core::check_rule!(my_op, my_other_op);
/// sharding_core::check_rule!(my_op; kind = BackendKind::CUDA);
/// ```
#[macro_export]
macro_rules! check_rule {
    ($($op:ident),+ $(,)?) => {
        $crate::check_rule!($($op),+; kind = $crate::BackendKind::CPU);
    };
    ($($op:ident),+ ; kind = $kind:expr) => {
        #[cfg(test)]
        mod rule_is_sound {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $op() {
                    $crate::conformance::rule::assert_rule(::core::stringify!($op), $kind);
                }
            )+
        }
    };
}

const NEVER_RUN: &str = "no row was ever run: the rule gives none that claims something";
const NOTHING_COMPARED: &str =
    "no result of any case has an element, so nothing was compared; add a case with elements";

/// What is checked.
struct Subject<'a> {
    def: &'static OpDef,
    rows: ErasedRows,
    kernel: ErasedKernel,
    backend: &'a dyn Backend,
    device: Device,
    kind: BackendKind,
}

/// Runs user code; a panic is an error of kind Internal.
fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("of another type");
        Err(Error::new(ErrorKind::Internal, format!("panicked: {text}")))
    })
}

fn has_custom(row: &AxisAssignment) -> bool {
    row.operands.iter().chain(&row.results).any(|place| matches!(place, Place::Custom(_)))
}

/// A row without the sizes in its custom placements: rows that differ in these only are wrong for one reason, and reported
/// once.
fn outline(row: &AxisAssignment) -> String {
    let place = |place: &Place| match place {
        Place::Custom(custom) => format!("{}({:?})", custom.placement().key().name, place.tensor_axis()),
        other => other.to_string(),
    };
    let list = |places: &[Place]| places.iter().map(place).collect::<Vec<_>>().join(", ");
    let staged = if row.is_staged() { " staged" } else { "" };
    format!("({}) -> ({}){staged}", list(&row.operands), list(&row.results))
}

struct Checker<'a> {
    subject: &'a Subject<'a>,
    report: RuleReport,
    /// Texts of all rows.
    rows: FxHashSet<String>,
    /// Outlines of the rows that were reported, and what was reported without a row.
    reported: FxHashSet<String>,
    /// The rule panicked: it is not asked again.
    broken: bool,
}

impl<'a> Checker<'a> {
    fn new(subject: &'a Subject<'a>) -> Self {
        let report = RuleReport::new(subject.def, subject.kind);
        Self { subject, report, rows: FxHashSet::default(), reported: FxHashSet::default(), broken: false }
    }

    fn run(mut self) -> Result<RuleReport> {
        let mut cases = Cases::new();
        caught(|| {
            (self.subject.def.cases)(&mut cases);
            Ok(())
        })?;
        if cases.iter().next().is_none() {
            return Err(Error::new(
                ErrorKind::Argument,
                "the op has no cases, so its rule cannot be checked",
            )
            .with_fix(
                "write them in its cases function: cases.add([CaseOperand::new(DType::F32, [4, 6])], args)",
            ));
        }
        let mut tried: Vec<(Trial, Vec<AxisAssignment>)> = Vec::new();
        for case in cases.iter() {
            let grouped: usize = case.groups.iter().map(|n| usize::from(*n)).sum();
            if grouped != case.operands.len() || case.groups.len() != self.subject.def.operands.len() {
                let text = format!("{:?}", case.operands);
                self.fail("any size", text, "the case's operands do not fit the declared ones");
                continue;
            }
            for roles in roles(self.subject, case) {
                let own = match Trial::new(self.subject, case.clone(), true, roles.clone()) {
                    Ok(own) => own,
                    Err(error) => {
                        let detail = format!("the case itself fails on whole inputs: {error}");
                        self.fail("one device", format!("{:?}", case.operands), &detail);
                        continue;
                    }
                };
                let rows = self.trial(&own)?;
                tried.push((own, rows));
                for variant in variants(self.subject, case) {
                    if let Some(variant) = self.variant(variant, &roles) {
                        let rows = self.trial(&variant)?;
                        tried.push((variant, rows));
                    }
                }
            }
        }
        self.report.rows = self.rows.len();
        // Where nothing is compared, nothing is proved.
        if self.report.elements == 0 && self.report.failures.is_empty() {
            let detail = if self.report.checks == 0 { NEVER_RUN } else { NOTHING_COMPARED };
            self.fail("any size", format!("all {}", cases.iter().count()), detail);
        }
        self.report.hints = hint::of(self.subject, &tried)?;
        Ok(self.report)
    }

    /// A variant with its answer. One that the kernel refuses says nothing about the rule (its elements may be no valid
    /// indices, say) and is counted; a definition that contradicts itself is a failure.
    fn variant(&mut self, case: Case, roles: &[Role]) -> Option<Trial> {
        let text = format!("{:?}", case.operands);
        match Trial::new(self.subject, case, false, roles.to_vec()) {
            Ok(trial) => return Some(trial),
            Err(error) if error.kind() == ErrorKind::Internal => {
                self.fail("one device", text, error.message());
            }
            Err(_) => self.report.refused += 1,
        }
        None
    }

    /// All rows of a trial on all meshes; gives those on a mesh of 2.
    fn trial(&mut self, trial: &Trial) -> Result<Vec<AxisAssignment>> {
        self.report.trials += 1;
        let (known, sound) = self.one_axis(trial, 2)?;
        self.one_axis(trial, 3)?;
        self.two_axes(trial, &sound)?;
        Ok(known)
    }

    /// All rows on a mesh of one axis, and those of them that are sound.
    fn one_axis(&mut self, trial: &Trial, ways: usize) -> Result<(Vec<AxisAssignment>, Vec<AxisAssignment>)> {
        let mesh = DeviceMesh::simulated(self.subject.kind, [ways], ["x"])?;
        let mut rows: Vec<AxisAssignment> = Vec::new();
        for present in questions(trial, ways) {
            self.ask(trial, &mesh, &[], &[&present], &mut rows);
        }
        let mut executor = Executor::new(self.subject, trial, &mesh);
        let mut sound = Vec::new();
        for row in &rows {
            if self.rows.len() < 1 << 16 {
                self.rows.insert(row.to_string());
            }
            if self.check(trial, &mut executor, &mesh, &[row]) {
                sound.push(row.clone());
            }
        }
        Ok((rows, sound))
    }

    /// Pairs of rows on a mesh of 2x2, the second asked with the first committed, as the planner does.
    fn two_axes(&mut self, trial: &Trial, sound: &[AxisAssignment]) -> Result<()> {
        let mesh = DeviceMesh::simulated(self.subject.kind, [2, 2], ["x", "y"])?;
        let bound = |(own, variant): (usize, usize)| if trial.own { own } else { variant };
        let mut presents: Vec<Present> = Vec::new();
        // Custom placements are many, and mostly go the way of Sharded: they must not crowd out the others.
        let (plain, custom): (Vec<_>, Vec<_>) = sound.iter().partition(|row| !has_custom(row));
        for row in plain.into_iter().chain(custom) {
            let present = row.operands.to_vec();
            if !presents.contains(&present) && presents.len() < bound(PRESENTS) {
                presents.push(present);
            }
        }
        let mut pairs: Vec<(AxisAssignment, AxisAssignment)> = Vec::new();
        for second in &presents {
            let mut firsts = Vec::new();
            for first in &presents {
                self.ask(trial, &mesh, &[], &[first, second], &mut firsts);
            }
            for first in firsts {
                // A first row that is wrong by itself has been reported.
                if !sound.contains(&first) && self.reported.contains(&outline(&first)) {
                    continue;
                }
                let mut seconds = Vec::new();
                let committed = [first];
                self.ask(trial, &mesh, &committed, &[second], &mut seconds);
                let [first] = committed;
                for other in seconds {
                    let fresh = !self.reported.contains(&outline(&other));
                    let pair = (first.clone(), other);
                    if fresh && !pairs.contains(&pair) {
                        pairs.push(pair);
                    }
                }
            }
        }
        let mut executor = Executor::new(self.subject, trial, &mesh);
        let (custom, plain): (Vec<_>, Vec<_>) =
            pairs.iter().partition(|(first, second)| has_custom(first) || has_custom(second));
        for pairs in [plain, custom] {
            let step = pairs.len().div_ceil(bound(PAIRS)).max(1);
            self.report.left_out += pairs.len() - pairs.len().div_ceil(step);
            for (first, second) in pairs.iter().step_by(step) {
                self.check(trial, &mut executor, &mesh, &[first, second]);
            }
        }
        Ok(())
    }

    /// Adds the rows that answer one question; what breaks the contract of rules is reported and left out.
    fn ask(
        &mut self,
        trial: &Trial,
        mesh: &DeviceMesh,
        committed: &[AxisAssignment],
        present: &[&Present],
        all: &mut Vec<AxisAssignment>,
    ) {
        if self.broken {
            return;
        }
        let answer = match ask(self.subject, trial, mesh.shape(), committed, present) {
            Ok(answer) => answer,
            Err(error) => {
                let plain = present.iter().all(|present| present.iter().all(|p| *p == Place::Replicated));
                self.broken = error.kind() == ErrorKind::Internal;
                if self.broken || (plain && committed.is_empty()) {
                    self.fail_trial(trial, &[], mesh, None, &format!("the rule refuses: {error}"));
                }
                return;
            }
        };
        let all_replicated = |row: &AxisAssignment| {
            row.operands.iter().chain(&row.results).all(|place| *place == Place::Replicated)
        };
        if !trial.roles.contains(&Role::Written) && !answer.iter().any(all_replicated) {
            self.fail_trial(trial, &[], mesh, None, "all-Replicated is not a row");
        }
        let now = present.first().map(|present| present.as_slice()).unwrap_or(&[]);
        for row in answer.iter() {
            let moved = trial
                .roles
                .iter()
                .zip(now)
                .zip(&row.operands)
                .any(|((role, now), place)| *role == Role::Written && now != place);
            let unknown = row.operands.contains(&Place::Unknown)
                && row.results.iter().any(|place| *place != Place::Unknown);
            let broken = if row.operands.len() != trial.inputs.len()
                || row.results.len() != trial.results.len()
            {
                format!("it must name {} operands and {} results", trial.inputs.len(), trial.results.len())
            } else if moved {
                "it moves a written operand; repeat its placement: cx.place(operand)".to_owned()
            } else if unknown {
                "it claims to know where the result of an Unknown operand lies".to_owned()
            } else {
                if !all.contains(row) {
                    all.push(row.clone());
                }
                continue;
            };
            self.fail_trial(trial, &[row], mesh, None, &broken);
        }
    }

    fn check(
        &mut self,
        trial: &Trial,
        executor: &mut Executor<'_>,
        mesh: &DeviceMesh,
        rows: &[&AxisAssignment],
    ) -> bool {
        // Nothing is claimed of Unknown operands, and nothing if all results are Unknown.
        let unknown = |place: &Place| *place == Place::Unknown;
        let silent = |row: &&AxisAssignment| {
            row.operands.iter().any(unknown) || (!row.results.is_empty() && row.results.iter().all(unknown))
        };
        if rows.iter().any(silent) {
            return false;
        }
        self.report.checks += 1;
        match executor.check(rows) {
            Answer::Sound { elements } => {
                self.report.elements += elements;
                true
            }
            Answer::Unreachable => {
                self.report.left_out += 1;
                false
            }
            Answer::Wrong(wrong) => {
                self.fail_trial(trial, rows, mesh, wrong.device, &wrong.detail);
                false
            }
        }
    }

    /// A failure of these rows, one per mesh axis, or of none.
    fn fail_trial(
        &mut self,
        trial: &Trial,
        rows: &[&AxisAssignment],
        mesh: &DeviceMesh,
        device: Option<usize>,
        detail: &str,
    ) {
        let sizes: Vec<String> = mesh.shape().iter().map(ToString::to_string).collect();
        let joined = |text: &dyn Fn(&AxisAssignment) -> String| match rows {
            [] => String::new(),
            [row] => text(row),
            rows => {
                let names = ["x: ", "y: "].into_iter().zip(rows);
                names.map(|(name, row)| format!("{name}{}", text(row))).collect::<Vec<_>>().join("; ")
            }
        };
        let key = if rows.is_empty() { detail.to_owned() } else { joined(&outline) };
        if self.reported.insert(key) {
            let row = joined(&ToString::to_string);
            self.push(row, sizes.join("x"), trial.describe(self.subject), device, detail);
        }
    }

    /// A failure that is no row's.
    fn fail(&mut self, mesh: &str, case: String, detail: &str) {
        if self.reported.insert(detail.to_owned()) {
            self.push(String::new(), mesh.to_owned(), case, None, detail);
        }
    }

    fn push(&mut self, row: String, mesh: String, case: String, device: Option<usize>, detail: &str) {
        if self.report.failures.len() < FAILURES {
            let (op, at) = (self.subject.def.name, self.subject.def.at);
            let detail = detail.to_owned();
            self.report.failures.push(RuleFailure { op, at, row, mesh, case, device, detail });
        }
    }
}
