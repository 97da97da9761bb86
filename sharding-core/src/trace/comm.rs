//! Communication as a tested property.

use super::report::explain_in;
use super::{CommReport, Runs, place};
use crate::Scope;
use crate::text::clean;
use std::fmt::Display;
use std::panic::Location;

/// A collective that may run: its name, the names of its mesh axes, and how many bytes a device may send in all its runs.
pub type Allowed<'a> = (&'a str, &'a [&'a str], f64);

/// Runs a piece of a program and panics unless exactly the collectives that are named ran, each over the mesh axes named
/// and with at most that many bytes per device in all its runs together; gives the value of the piece.
///
/// Bytes are those of the volume model: what one device sends, for permute and move what it receives. Local steps
/// (`local_slice`, `keep_one_copy`) move nothing between devices and are not named. The message of the panic shows the error if the
/// piece gave one, what ran with its lines, and the planner's report of every reshard.
///
/// ```
/// use sharding_core::{BackendKind, DType, DeviceMesh, assert_comm};
/// let sum = assert_comm!([], 1 + 1);
/// assert_eq!(sum, 2);
/// ```
///
/// With tensors: `assert_comm!([all_reduce("tp") <= 64.0], relu(&matmul(&a, &b)?))?`, where several mesh axes of one
/// collective are `all_reduce("dp", "tp")`, in any order.
#[macro_export]
macro_rules! assert_comm {
    ([$($kind:ident($($axis:expr),* $(,)?) <= $bytes:expr),* $(,)?], $program:expr $(,)?) => {
        $crate::trace::check_comm_of(
            &[$((::core::stringify!($kind), &[$($axis),*][..], $bytes as f64)),*],
            || $program,
            |value| {
                #[allow(unused_imports, reason = "one of the two is for this value")]
                use $crate::trace::{OfAny as _, OfResult as _};
                (&$crate::trace::Gave(value)).error()
            },
        )
    };
}

/// What [`assert_comm!`](crate::assert_comm) does, for a list that is not written in the program; it does not know whether the
/// value is an error.
///
/// # Panics
/// If other collectives ran than those allowed, one of them did not run, or one sent more bytes.
#[track_caller]
pub fn check_comm<T>(allowed: &[Allowed<'_>], program: impl FnOnce() -> T) -> T {
    check_comm_of(allowed, program, |_| None)
}

#[doc(hidden)]
#[track_caller]
pub fn check_comm_of<T>(
    allowed: &[Allowed<'_>],
    program: impl FnOnce() -> T,
    error: impl FnOnce(&T) -> Option<String>,
) -> T {
    let at = Location::caller();
    let explained = explain_in((*Scope::current()).clone().with_reports(), program);
    let wrong = compare(allowed, &explained.report);
    if wrong.is_empty() {
        return explained.value;
    }
    let mut message = format!("assert_comm at {}:\n  {}\n\n", place(at), wrong.join("\n  "));
    if let Some(error) = error(&explained.value) {
        message.push_str(&format!("The program gave an error:\n{error}\n\n"));
    }
    message.push_str(&explained.report.to_string());
    for report in &explained.report.reports {
        message.push_str("\n\n");
        message.push_str(report);
    }
    #[allow(clippy::panic, reason = "an assertion")]
    {
        panic!("{message}");
    }
}

/// The value of a program. Its error is asked for by a method that a `Result` has itself, and any other value only by one more
/// reference, so that the macro takes programs of both kinds.
#[doc(hidden)]
#[derive(Debug)]
pub struct Gave<'a, T>(pub &'a T);

#[doc(hidden)]
pub trait OfResult {
    fn error(&self) -> Option<String>;
}

impl<T, E: Display> OfResult for Gave<'_, Result<T, E>> {
    fn error(&self) -> Option<String> {
        self.0.as_ref().err().map(E::to_string)
    }
}

#[doc(hidden)]
pub trait OfAny {
    fn error(&self) -> Option<String>;
}

impl<T> OfAny for &Gave<'_, T> {
    fn error(&self) -> Option<String> {
        None
    }
}

/// Names of mesh axes in one order, whatever that of the mesh or of who writes them.
fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}

/// Bytes per device are fractions of what is moved: their sums are rounded.
const ROUNDING: f64 = 1e-9;

/// A number of bytes, which need not be whole.
fn written(bytes: f64) -> String {
    if (bytes - bytes.round()).abs() <= ROUNDING * bytes.abs() {
        format!("{bytes:.0}")
    } else {
        format!("{bytes:.3}")
    }
}

/// A collective that ran: its name, the names of its mesh axes in order, and what it moved.
type Ran<'a, T> = (&'a str, Vec<&'a str>, T);

/// What differs, a line each.
fn compare(allowed: &[Allowed<'_>], report: &CommReport) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut found: Vec<Ran<'_, Vec<(f64, &Runs)>>> = Vec::new();
    for step in report.steps.iter().filter(|step| step.kind.communicates()) {
        let axes = sorted(step.axes.iter().map(String::as_str));
        let one = (step.bytes, &step.runs);
        match found.iter_mut().find(|(kind, known, _)| *kind == step.kind.name() && *known == axes) {
            Some((_, _, all)) => all.push(one),
            None => found.push((step.kind.name(), axes, vec![one])),
        }
    }
    let ran: Vec<Ran<'_, f64>> =
        found.into_iter().map(|(kind, axes, all)| (kind, axes, Runs::cost(all))).collect();
    let is = |(kind, axes, _): &Ran<'_, f64>, other: &Allowed<'_>| {
        *kind == other.0 && *axes == sorted(other.1.iter().copied())
    };
    for other in allowed {
        let name = format!("{}({})", other.0, clean(&other.1.join(", ")));
        match ran.iter().find(|one| is(one, other)) {
            None => wrong.push(format!("{name} did not run")),
            // No number allows nothing.
            Some((_, _, bytes)) if other.2.is_nan() || *bytes > other.2 * (1.0 + ROUNDING) => {
                wrong.push(format!(
                    "{name} sends {} bytes per device, at most {} are allowed",
                    written(*bytes),
                    written(other.2)
                ));
            }
            Some(_) => {}
        }
    }
    for one in ran.iter().filter(|one| !allowed.iter().any(|other| is(one, other))) {
        let (kind, axes, bytes) = one;
        wrong.push(format!(
            "{kind}({}) ran, with {} bytes per device, and is not allowed",
            clean(&axes.join(", ")),
            written(*bytes)
        ));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::StepKind;
    use crate::trace::CommStep;
    use crate::{BackendKind, DeviceMesh};

    fn check(sent: &[f64], allowed: f64, want: &[&str]) {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [3], ["x"]).unwrap();
        let step = |bytes: &f64| CommStep {
            op: "relu",
            at: "lib.rs:1".to_owned(),
            kind: StepKind::AllGather,
            axes: vec!["x".to_owned()],
            bytes: *bytes,
            seconds: None,
            peak: 0,
            count: 1,
            runs: Runs::once(&mesh),
        };
        let report = CommReport { steps: sent.iter().map(step).collect(), ..CommReport::default() };
        assert_eq!(compare(&[("all_gather", &["x"], allowed)], &report), want);
    }

    /// Of 3, 5 and 1 floats over three devices: in floating point their sum is a little more than 24.
    #[test]
    fn a_bound_that_is_met_is_met_whatever_is_rounded() {
        let sent = [3.0, 5.0, 1.0].map(|floats| floats * 4.0 * 2.0 / 3.0);
        assert!(sent.iter().sum::<f64>() > 24.0);
        check(&sent, 24.0, &[]);
        check(&sent, 23.5, &["all_gather(x) sends 24 bytes per device, at most 23.500 are allowed"]);
        check(&[15.75], 15.5, &["all_gather(x) sends 15.750 bytes per device, at most 15.500 are allowed"]);
        check(&[1.0], f64::NAN, &["all_gather(x) sends 1 bytes per device, at most NaN are allowed"]);
        check(&[0.0], 0.0, &[]);
    }
}
