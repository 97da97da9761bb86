//! What a program moved, as a table.

use super::{Event, Runs, Watch, place};
use crate::backend::{Exchange, Step, StepKind};
use crate::plan::{CostModel, CostUnit};
use crate::{DeviceMesh, Scope, dispatch, text};
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One kind of step that ran: equal ones are counted.
#[derive(Clone, Debug, PartialEq)]
pub struct CommStep {
    /// The op on whose behalf it ran.
    pub op: &'static str,
    /// Where the outermost op was called, `file:line`.
    pub at: String,
    /// The collective, or local step.
    pub kind: StepKind,
    /// The names of the mesh axes.
    pub axes: Vec<String>,
    /// Bytes that one device sends (receives, for permute and move) in one run, by the volume model.
    pub bytes: f64,
    /// Modelled seconds of one run, if the cost model in scope prices in seconds.
    pub seconds: Option<f64>,
    /// The most bytes that one device holds for it: its piece of what it reads and of what it makes.
    pub peak: usize,
    /// How often it ran on one device, of those on which it ran most: groups of a region run it at the same time.
    pub count: usize,
    /// How often it ran on each device.
    pub(super) runs: Runs,
}

/// What a program moved: all steps of redistributions and staged ops, in the order in which they first ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommReport {
    /// The steps.
    pub steps: Vec<CommStep>,
    /// Calls of ops and transfers, those inside others included.
    pub ops: usize,
    /// Kernels that local kernels launched, on all devices together.
    pub kernels: usize,
    /// The planner's reports, of the calls that moved operands; only what [`assert_comm!`](crate::assert_comm) runs has any.
    pub reports: Vec<String>,
}

impl CommReport {
    /// Bytes that one device sends in all steps together, of those that send most.
    pub fn bytes(&self) -> f64 {
        Runs::cost(self.steps.iter().map(|step| (step.bytes, &step.runs)))
    }
    /// Modelled seconds of all steps together, on the device for which they are most, if the cost model prices in seconds;
    /// `None` where nothing moved too, as no model was asked.
    pub fn seconds(&self) -> Option<f64> {
        self.steps.first()?;
        let each: Option<Vec<_>> = self.steps.iter().map(|step| Some((step.seconds?, &step.runs))).collect();
        each.map(Runs::cost)
    }
    /// The most bytes that one device holds for one step.
    pub fn peak(&self) -> usize {
        self.steps.iter().map(|step| step.peak).max().unwrap_or(0)
    }
}

/// The value of a program, and what it moved. Prints as a table.
#[derive(Clone, Debug)]
pub struct Explained<T> {
    /// What the program gave.
    pub value: T,
    /// What it moved.
    pub report: CommReport,
}

impl<T> fmt::Display for Explained<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.fmt(f)
    }
}

/// Runs a program and says what it moved: step, collective, mesh axes, bytes per device, modelled seconds, peak bytes, and
/// the op with its caller's line. On a mesh of the kind `sim` that needs no data. See
/// [`explain_transfer`](crate::redistribute::explain_transfer) for one transfer that is not run.
///
/// The column `seconds` says `-` unless the cost model in scope prices in seconds.
///
/// ```
/// use sharding_core::trace::explain;
/// let nothing = explain(|| 1 + 1);
/// assert_eq!(nothing.value, 2);
/// assert_eq!(nothing.to_string(), "nothing moved in 0 ops and 0 kernels");
/// ```
pub fn explain<T>(program: impl FnOnce() -> T) -> Explained<T> {
    explain_in((*Scope::current()).clone(), program)
}

/// The same under a scope.
pub(super) fn explain_in<T>(scope: Scope, program: impl FnOnce() -> T) -> Explained<T> {
    let collector = Arc::new(Collector::default());
    let value = scope.with_watcher(collector.clone()).enter(program);
    let report = std::mem::take(&mut *collector.lock());
    Explained { value, report }
}

/// Collects a report.
#[derive(Default)]
struct Collector(Mutex<CommReport>);

impl Collector {
    fn lock(&self) -> MutexGuard<'_, CommReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector {
    fn count(&self, one: CommStep) {
        let of = |step: &CommStep| {
            let CommStep { op, kind, bytes, seconds, peak, .. } = step;
            (*op, *kind, *bytes, *seconds, *peak)
        };
        let like =
            |known: &&mut CommStep| of(known) == of(&one) && known.at == one.at && known.axes == one.axes;
        let mut report = self.lock();
        match report.steps.iter_mut().find(like) {
            Some(known) => {
                known.runs.add(&one.runs);
                known.count = usize::try_from(known.runs.most()).unwrap_or(usize::MAX);
            }
            None => report.steps.push(one),
        }
    }
}

impl Watch for Collector {
    fn begin(&self, event: &Event<'_>) {
        match event {
            Event::Op { .. } => self.lock().ops += 1,
            Event::Kernel { .. } => self.lock().kernels += 1,
            Event::Reshard { .. } => {}
            Event::Step { op, step } => {
                if step.kind == StepKind::Relabel {
                    return;
                }
                self.count(comm_step(op, step));
            }
            Event::Exchange { op, exchange, bytes } => self.count(comm_exchange(op, exchange, *bytes)),
        }
    }

    fn end(&self, _: &Event<'_>) {}

    fn report(&self, report: &str, op: &'static str, at: &'static Location<'static>) {
        let mut all = self.lock();
        let text = format!("{report}\n  at {} in {op}", place(at));
        if !all.reports.contains(&text) {
            all.reports.push(text);
        }
    }
}

/// A step of a redistribution or of a staged function.
fn comm_step(op: &'static str, step: &Step) -> CommStep {
    CommStep {
        kind: step.kind,
        axes: step.axis_names().map(str::to_owned).collect(),
        bytes: step.bytes(),
        seconds: seconds(|cost| step.price(cost)),
        peak: step.peak(),
        ..here(op, step.target.mesh())
    }
}

/// An exchange inside an op; where no device lacks anything it is a slice.
fn comm_exchange(op: &'static str, exchange: &Exchange<'_>, bytes: usize) -> CommStep {
    CommStep {
        kind: if bytes == 0 { StepKind::LocalSlice } else { StepKind::Permute },
        axes: exchange.axis_names().map(str::to_owned).collect(),
        bytes: bytes as f64,
        seconds: seconds(|cost| exchange.price(cost, bytes)),
        peak: exchange.peak(),
        ..here(op, exchange.result.mesh())
    }
}

/// A step of nothing, at the line that is running, with a result on this mesh.
fn here(op: &'static str, mesh: &DeviceMesh) -> CommStep {
    CommStep {
        op,
        at: dispatch::outermost().map_or_else(|| "-".to_owned(), |(_, at)| place(at)),
        kind: StepKind::Relabel,
        axes: Vec::new(),
        bytes: 0.0,
        seconds: None,
        peak: 0,
        count: 1,
        runs: Runs::once(mesh),
    }
}

/// What the cost model in scope says, if it says seconds. Models are foreign code; one that panics gives none.
fn seconds(price: impl FnOnce(&dyn CostModel) -> f64) -> Option<f64> {
    let scope = Scope::current();
    let asked = || Ok((scope.cost().unit() == CostUnit::Seconds).then(|| price(scope.cost())));
    dispatch::guarded("the cost model", asked).ok().flatten()
}

impl fmt::Display for CommReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return write!(f, "nothing moved in {} ops and {} kernels", self.ops, self.kernels);
        }
        let head =
            ["step", "collective", "mesh axes", "times", "bytes/device", "seconds", "peak bytes", "op", "at"];
        let mut rows = vec![head.map(str::to_owned)];
        for (i, step) in self.steps.iter().enumerate() {
            rows.push([
                (i + 1).to_string(),
                step.kind.name().to_owned(),
                step.axes.join(", "),
                step.count.to_string(),
                format!("{:.0}", step.bytes),
                text::seconds(step.seconds),
                step.peak.to_string(),
                step.op.to_owned(),
                step.at.clone(),
            ]);
        }
        let times = Runs::cost(self.steps.iter().map(|step| (1.0, &step.runs)));
        rows.push([
            "total".to_owned(),
            String::new(),
            String::new(),
            times.to_string(),
            format!("{:.0}", self.bytes()),
            text::seconds(self.seconds()),
            self.peak().to_string(),
            format!("{} ops, {} kernels", self.ops, self.kernels),
            String::new(),
        ]);
        text::table(f, "", &rows, 3..=6)
    }
}
