//! The suite that every backend passes; it stands beside the contract ([`crate::backend`]) and says the same in tests.
//!
//! A backend instantiates it by one macro line, [`backend_suite!`](crate::backend_suite). Each check has a name; what a
//! backend cannot pass yet is named in its expectations, with the reason: an expected failure that passes is an
//! error, so that lists do not rot. What the backend says it does not support is checked to be refused with a typed
//! error, and printed as skipped.

mod adopt;
mod collective;
mod dense;
mod exchange;
mod map;
mod memory;
mod movement;
mod random;

use super::host::HostArray;
use super::naive;
use crate::backend::{Backend, LocalArray, LocalMeta, Primitive, Support, Work, backend_of};
use crate::{BackendKind, DType, Device, Error, ErrorKind, Result, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The op on whose behalf the suite runs.
const OP: &str = "conformance";

/// The parts of the suite, each one test.
pub const GROUPS: [&str; 10] =
    ["memory", "copies", "map", "reduce", "dot", "gather", "index_map", "random", "fused", "collectives"];

/// What one part of the suite found.
#[derive(Clone, Debug, Default)]
pub struct SuiteReport {
    /// The name of every check, and what is wrong.
    pub checks: Vec<(String, std::result::Result<(), String>)>,
    /// What did not run, and why: a line for each kind of call, with their number.
    pub skipped: Vec<String>,
    /// The calls that have no meaning for their dtype, as the exponential of a truth value, and were refused.
    pub undefined: usize,
}

impl SuiteReport {
    /// What is wrong, given the checks (by the start of their names) that are expected to fail: failures that are
    /// not expected, and expected ones that pass.
    pub fn problems(&self, expected: &[(&str, &str)]) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, outcome) in &self.checks {
            let expected = expected.iter().find(|(start, _)| name.starts_with(start));
            match (outcome, expected) {
                (Err(message), None) => problems.push(format!("{name}: {message}")),
                (Ok(()), Some((start, reason))) => problems.push(format!(
                    "{name} passes, though '{start}' is expected to fail ({reason}): take it off the list"
                )),
                _ => {}
            }
        }
        problems
    }
}

/// Runs one part of the suite on a backend. `data` is false for a backend that keeps shapes and bytes only.
pub fn run_group(group: &str, backend: &dyn Backend, data: bool) -> SuiteReport {
    let device = Device::new(backend.kind(), 0);
    let mut bench = Bench { backend, device, data, report: SuiteReport::default(), skips: BTreeMap::new() };
    match group {
        "memory" => memory::memory(&mut bench),
        "copies" => memory::copies(&mut bench),
        "map" => map::map(&mut bench),
        "reduce" => dense::reduce(&mut bench),
        "dot" => dense::dot(&mut bench),
        "gather" => movement::gather(&mut bench),
        "index_map" => movement::index_map(&mut bench),
        "random" => random::random(&mut bench),
        "fused" => dense::fused(&mut bench),
        "collectives" => {
            collective::collectives(&mut bench);
            exchange::exchanges(&mut bench);
        }
        _ => bench.report.checks.push((group.to_owned(), Err("there is no such part".to_owned()))),
    }
    for (kind, skip) in std::mem::take(&mut bench.skips) {
        let dtypes: Vec<&str> = skip.dtypes.iter().map(|dtype| dtype.name()).collect();
        let Skip { calls, reason, .. } = skip;
        bench.report.skipped.push(format!("{kind}: {calls} calls with {}; one: {reason}", dtypes.join(" ")));
    }
    if !data {
        bench.report.skipped.push(format!("{group}: values, the backend keeps no data"));
    }
    bench.report
}

/// The body of one test of [`backend_suite!`](crate::backend_suite).
#[allow(clippy::panic, reason = "it is the body of a test")]
pub fn assert_group(group: &str, kind: BackendKind, data: bool, expected: &[(&str, &str)]) {
    let backend = match backend_of(kind) {
        Ok(backend) => backend,
        Err(error) => panic!("{error}"),
    };
    match catch_unwind(AssertUnwindSafe(|| backend.devices())) {
        Err(_) => panic!("probing for devices of kind {kind} panics"),
        Ok(Err(error)) => {
            println!("SKIPPED: {group} on {kind}: {error}");
            return;
        }
        Ok(Ok(devices)) if devices.is_empty() => {
            panic!("no device and no error: say what is missing on this machine")
        }
        Ok(Ok(_)) => {}
    }
    let report = run_group(group, &**backend, data);
    for skipped in &report.skipped {
        println!("SKIPPED: {skipped}");
    }
    let problems = report.problems(expected);
    if !problems.is_empty() {
        let shown: Vec<&str> = problems.iter().take(20).map(String::as_str).collect();
        panic!(
            "{group} on {kind}: {} of {} checks\n{}",
            problems.len(),
            report.checks.len(),
            shown.join("\n")
        );
    }
    let undefined = report.undefined;
    println!(
        "{group} on {kind}: {} checks; {undefined} calls are not defined for their dtype",
        report.checks.len()
    );
}

/// Makes the tests of the conformance suite for a backend.
///
/// ```ignore
/// sharding_core::backend_suite!(kind = BackendKind::CPU, expectations = []);
/// sharding_core::backend_suite!(
///     kind = BackendKind::CUDA,
///     expectations = [("fused/softmax", "the kernel comes with the next release")]
/// );
/// sharding_core::backend_suite!(kind = BackendKind::SIM, data = false, expectations = []);
/// ```
///
/// An expectation names checks by the start of their names and says why they fail; one that passes is an error.
#[macro_export]
macro_rules! backend_suite {
    (kind = $kind:expr, expectations = $expected:expr $(,)?) => {
        $crate::backend_suite!(kind = $kind, data = true, expectations = $expected);
    };
    (kind = $kind:expr, data = $data:expr, expectations = $expected:expr $(,)?) => {
        $crate::backend_suite!(
            @tests $kind, $data, $expected,
            memory copies map reduce dot gather index_map random fused collectives
        );
    };
    (@tests $kind:expr, $data:expr, $expected:expr, $($group:ident)*) => {
        #[cfg(test)]
        mod backend_suite {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $group() {
                    let group = ::core::stringify!($group);
                    let expected: &[(&str, &str)] = &$expected;
                    $crate::conformance::backend::assert_group(group, $kind, $data, expected);
                }
            )*

            #[test]
            fn every_part_is_run() {
                let run = [$(::core::stringify!($group)),*];
                assert_eq!(run, $crate::conformance::backend::GROUPS);
            }
        }
    };
}

/// How an input lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Row-major from the start of its storage.
    Dense,
    /// A slice of something larger on every axis.
    Sliced,
    /// With its axes in reverse order.
    Permuted,
}

const FORMS: [Form; 3] = [Form::Dense, Form::Sliced, Form::Permuted];

/// One backend under test.
struct Bench<'a> {
    backend: &'a dyn Backend,
    device: Device,
    data: bool,
    report: SuiteReport,
    skips: BTreeMap<String, Skip>,
}

/// Calls of one kind that a backend does not support.
struct Skip {
    calls: usize,
    dtypes: BTreeSet<DType>,
    /// Why the first of them is not.
    reason: String,
}

/// A failed check, as text.
type Checked = std::result::Result<(), String>;

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Runs what may panic; a panic is never right.
fn caught<T>(run: impl FnOnce() -> Result<T>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(text),
        Err(_) => Err("it panics".to_owned()),
    }
}

impl Bench<'_> {
    /// Adds a check.
    fn check(&mut self, name: impl Into<String>, run: impl FnOnce(&Self) -> Checked) {
        let outcome =
            catch_unwind(AssertUnwindSafe(|| run(self))).unwrap_or_else(|_| Err("it panics".to_owned()));
        self.report.checks.push((name.into(), outcome));
    }

    /// Notes a call that does not run, under its kind.
    fn skip(&mut self, kind: &str, dtypes: &[DType], reason: &str) {
        let none = || Skip { calls: 0, dtypes: BTreeSet::new(), reason: reason.to_owned() };
        let skip = self.skips.entry(kind.to_owned()).or_insert_with(none);
        skip.calls += 1;
        skip.dtypes.extend(dtypes);
    }

    /// The array on the device, lying in memory as `form` says.
    fn put(&self, host: &HostArray, form: Form) -> Result<LocalArray> {
        match form {
            Form::Dense => host.put(self.backend, self.device),
            Form::Sliced => {
                let large: Shape = host.shape.iter().map(|extent| extent + 3).collect();
                let mut padded = HostArray::filled(host.dtype, &large, filler(host.dtype));
                let region =
                    host.shape.iter().map(|extent| std::iter::once(1..extent + 1).collect()).collect();
                for (flat, value) in super::host::flat_indices(&large, &region).into_iter().zip(&host.values)
                {
                    if let Some(slot) = padded.values.get_mut(flat) {
                        *slot = *value;
                    }
                }
                let whole = padded.put(self.backend, self.device)?;
                let cut = |view: LocalArray, (axis, extent): (usize, &usize)| view.slice(axis, 1, *extent);
                Ok(host.shape.iter().enumerate().fold(whole, cut))
            }
            Form::Permuted => {
                let axes: Vec<usize> = (0..host.shape.len()).rev().collect();
                let reversed: Shape = host.shape.iter().rev().copied().collect();
                let map = crate::backend::IndexMap::permute(&host.shape, &axes);
                let turned = naive::primitive(&Primitive::Copy(map), &[host], host.dtype, &reversed)?;
                Ok(turned.put(self.backend, self.device)?.permute(&axes))
            }
        }
    }

    /// Whether an array has these elements; only its sizes where the backend keeps no data.
    fn holds(&self, array: &LocalArray, want: &HostArray, exact: bool) -> Checked {
        if array.dtype() != want.dtype || *array.shape() != want.shape {
            return Err(format!("wanted {}{}, got {array:?}", want.dtype, want.shape));
        }
        if !self.data {
            return Ok(());
        }
        let got = caught(|| HostArray::read(self.backend, array))?;
        let different = match exact {
            false => want.first_difference(&got).map(|found| (found.index, found.want, found.got)),
            true => {
                let same = |(want, got): &(&crate::Scalar, &crate::Scalar)| {
                    want.key_bits() == got.key_bits() || (want.as_f64().is_nan() && got.as_f64().is_nan())
                };
                let at = want.values.iter().zip(&got.values).position(|pair| !same(&pair));
                at.and_then(|at| {
                    let index = super::host::unravel(&want.shape, at);
                    Some((index, *want.values.get(at)?, *got.values.get(at)?))
                })
            }
        };
        match different {
            None => Ok(()),
            Some((index, want, got)) => Err(format!("at {index:?} wanted {want}, got {got}")),
        }
    }

    fn launch(
        &self,
        primitive: &Primitive,
        inputs: &[&LocalArray],
        dtype: DType,
        shape: &Shape,
    ) -> Result<LocalArray> {
        let mut outputs = [self.backend.alloc(self.device, dtype, shape)?];
        let work = Work { op: OP, device: self.device, inputs, outputs: &mut outputs };
        self.backend.launch(primitive, &mut [work])?;
        let [output] = outputs;
        Ok(output)
    }

    /// Compares a primitive with its definition, for inputs lying in every form; or, where the backend says No,
    /// checks that it refuses with a typed error.
    fn compare(
        &mut self,
        name: impl Display,
        primitive: &Primitive,
        inputs: &[&HostArray],
        dtype: DType,
        shape: &Shape,
    ) {
        let metas: Vec<LocalMeta> =
            inputs.iter().map(|input| LocalMeta::contiguous(input.dtype, input.shape.clone())).collect();
        let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype).collect();
        let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
        let shapes: Vec<String> = inputs.iter().map(|input| input.shape.to_string()).collect();
        let kind = name.to_string();
        let name = format!("{kind} {} {}", names.join(","), shapes.join(","));
        match self.backend.supports(primitive, &metas) {
            Support::Yes => {}
            Support::No(reason) => {
                if naive::is_defined(primitive, &dtypes) {
                    let own = [dtype];
                    let kind = kind.split(['[', '(', '.']).next().unwrap_or_default();
                    self.skip(kind, if inputs.is_empty() { &own } else { &dtypes }, &reason);
                } else {
                    self.report.undefined += 1;
                }
                self.check(name, |bench| bench.refuses(primitive, inputs, dtype, shape, &reason));
                return;
            }
        }
        let want = naive::primitive(primitive, inputs, dtype, shape);
        let forms: &[Form] = if inputs.is_empty() { &[Form::Dense] } else { &FORMS };
        for form in forms {
            self.check(format!("{name} {form:?}"), |bench| {
                let arrays: Vec<LocalArray> = inputs
                    .iter()
                    .map(|input| bench.put(input, *form))
                    .collect::<Result<_>>()
                    .map_err(text)?;
                let arrays: Vec<&LocalArray> = arrays.iter().collect();
                let output = caught(|| bench.launch(primitive, &arrays, dtype, shape))?;
                if arrays.iter().any(|input| Arc::ptr_eq(input.storage(), output.storage())) {
                    return Err("the output shares the storage of an input".to_owned());
                }
                if !output.is_contiguous() {
                    return Err("the output is not contiguous".to_owned());
                }
                // Without a definition (a function that a dtype does not have), running is all that Yes promises.
                let Ok(want) = &want else { return Ok(()) };
                bench.holds(&output, want, false)?;
                for (input, host) in arrays.iter().zip(inputs) {
                    bench
                        .holds(input, host, true)
                        .map_err(|message| format!("an input changed: {message}"))?;
                }
                Ok(())
            });
        }
    }

    /// A backend that says No gives a reason, and an error that is no panic.
    fn refuses(
        &self,
        primitive: &Primitive,
        inputs: &[&HostArray],
        dtype: DType,
        shape: &Shape,
        reason: &str,
    ) -> Checked {
        if reason.is_empty() {
            return Err("it says No without a reason".to_owned());
        }
        let run = || -> Result<LocalArray> {
            let arrays: Vec<LocalArray> =
                inputs.iter().map(|input| self.put(input, Form::Dense)).collect::<Result<_>>()?;
            let arrays: Vec<&LocalArray> = arrays.iter().collect();
            self.launch(primitive, &arrays, dtype, shape)
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Err(_) => Err(format!("it says No ({reason}), and panics when launched")),
            Ok(Ok(_)) => Err(format!("it says No ({reason}), and runs")),
            Ok(Err(error)) => typed(&error),
        }
    }
}

/// Errors of a backend are of kind Backend or Kernel.
fn typed(error: &Error) -> Checked {
    match error.kind() {
        ErrorKind::Backend | ErrorKind::Kernel => Ok(()),
        kind => Err(format!("the error is of kind {kind:?}: {error}")),
    }
}

/// What surrounds a sliced array: a value that shows if it is read.
fn filler(dtype: DType) -> crate::Scalar {
    match dtype {
        DType::Bool => crate::Scalar::Bool(true),
        float if float.is_float() => crate::Scalar::Float(7_777.0),
        integer => super::host::wrapped(77, integer),
    }
}

const DTYPES: [DType; 13] = DType::ALL;

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Elements of both signs.
fn signed(dtype: DType, shape: impl Into<Shape>, seed: u64) -> HostArray {
    HostArray::of_case(&crate::op::CaseOperand::new(dtype, shape), seed)
}
