//! A trace for Perfetto and chrome://tracing.

use super::{Event, Watch, place};
use crate::backend::backend_of;
use crate::{Device, DeviceMesh, Error, ErrorKind, Result, Scope, ScopeGuard, TensorLayout};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::Location;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

/// Writes what runs in the present scope to a file, until the guard is dropped.
///
/// The file is JSON in the Trace Event Format, which <https://ui.perfetto.dev> and chrome://tracing open. A lane per
/// thread that calls ops has the ops and their reshards; a lane per device has its kernels and the collectives that it
/// took part in. Times are those of this program, also on `sim`, where nothing is computed. Events carry shapes, mesh
/// axes, bytes and the line of the call. A program that panics or returns early leaves a whole file, and one that is
/// killed a file that both programs still open.
///
/// ```
/// let path = std::env::temp_dir().join(format!("trace-{}.json", std::process::id()));
/// let trace = sharding_core::trace::trace_to_file(&path)?;
/// // .. ops ..
/// trace.finish()?;
/// assert!(std::fs::read_to_string(&path).is_ok_and(|text| text.starts_with('[')));
/// # let _ = std::fs::remove_file(&path);
/// # Ok::<(), sharding_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Argument`] if the file cannot be written.
pub fn trace_to_file(path: impl AsRef<Path>) -> Result<TraceFile> {
    let path = path.as_ref();
    let file = File::create(path).map_err(|error| {
        Error::new(ErrorKind::Argument, format!("cannot write the trace {}", path.display()))
            .with_fix("give a path in a folder that exists and may be written")
            .with_source(error)
    })?;
    let mut state = State {
        out: Some(BufWriter::new(file)),
        lanes: BTreeMap::new(),
        threads: Vec::new(),
        begun: Vec::new(),
        failed: None,
    };
    state.write_raw(
        "[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"program\"}}",
    );
    let writer = Arc::new(Writer { start: Instant::now(), state: Mutex::new(state) });
    let guard = (*Scope::current()).clone().with_watcher(writer.clone()).guard();
    Ok(TraceFile { writer, guard: Some(guard) })
}

/// Ends a trace when dropped.
#[must_use = "the trace ends when the guard is dropped"]
pub struct TraceFile {
    writer: Arc<Writer>,
    guard: Option<ScopeGuard>,
}

impl TraceFile {
    /// Ends the trace.
    ///
    /// # Errors
    /// [`ErrorKind::Backend`] if something could not be written (the disk is full).
    pub fn finish(mut self) -> Result<()> {
        self.close().map_err(|error| {
            Error::new(ErrorKind::Backend, "the trace is not whole: writing it failed").with_source(error)
        })
    }

    fn close(&mut self) -> io::Result<()> {
        self.guard = None;
        self.writer.lock().close()
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!("the trace is not whole: {error}");
        }
    }
}

struct Writer {
    start: Instant,
    state: Mutex<State>,
}

struct State {
    /// Absent when closed.
    out: Option<BufWriter<File>>,
    lanes: BTreeMap<Device, usize>,
    /// Threads that called ops; the place is the number of the lane.
    threads: Vec<ThreadId>,
    /// When the events of a thread that have not ended began.
    begun: Vec<Vec<Instant>>,
    failed: Option<io::Error>,
}

/// The lane of a thread, by its number: lanes of threads are odd, those of devices even.
fn thread_lane(thread: usize) -> usize {
    2 * thread + 1
}

/// Lanes of devices stand below those of so many threads.
const THREADS_ABOVE: usize = 1 << 20;

impl Writer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn write_raw(&mut self, text: &str) {
        if let Some(out) = &mut self.out
            && let Err(error) = out.write_all(text.as_bytes())
        {
            self.failed.get_or_insert(error);
        }
    }

    fn close(&mut self) -> io::Result<()> {
        self.write_raw("\n]\n");
        if let Some(mut out) = self.out.take()
            && let Err(error) = out.flush()
        {
            self.failed.get_or_insert(error);
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn name_lane(&mut self, lane: usize, sort: usize, name: &str) {
        let name = json(name);
        self.write_raw(&format!(
            ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{lane},\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}}}"
        ));
        self.write_raw(&format!(
            ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{lane},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{sort}}}}}"
        ));
    }

    /// The number of this thread among those that called ops.
    fn thread(&mut self) -> usize {
        let own = std::thread::current().id();
        if let Some(known) = self.threads.iter().position(|thread| *thread == own) {
            return known;
        }
        let number = self.threads.len();
        self.threads.push(own);
        self.begun.push(Vec::new());
        let current = std::thread::current();
        let name = format!("ops of thread {}", current.name().unwrap_or("without a name"));
        self.name_lane(thread_lane(number), number, &name);
        number
    }

    fn device(&mut self, device: Device) -> usize {
        if let Some(lane) = self.lanes.get(&device) {
            return *lane;
        }
        let number = self.lanes.len();
        let lane = 2 * number + 2;
        self.lanes.insert(device, lane);
        self.name_lane(lane, THREADS_ABOVE + number, &device.to_string());
        lane
    }
}

impl Watch for Writer {
    fn begin(&self, _: &Event<'_>) {
        let mut state = self.lock();
        let thread = state.thread();
        if let Some(begun) = state.begun.get_mut(thread) {
            begun.push(Instant::now());
        }
    }

    fn end(&self, event: &Event<'_>) {
        let ended = Instant::now();
        let mut state = self.lock();
        let thread = state.thread();
        let Some(begun) = state.begun.get_mut(thread).and_then(Vec::pop) else { return };
        if state.out.is_none() {
            return;
        }
        let lanes: Vec<usize> = match event {
            Event::Op { .. } | Event::Reshard { .. } => vec![thread_lane(thread)],
            Event::Kernel { device, .. } => vec![state.device(*device)],
            Event::Step { step, .. } => {
                let meshes = [step.source.mesh(), step.target.mesh()];
                devices(meshes).into_iter().map(|device| state.device(device)).collect()
            }
            Event::Exchange { exchange, .. } => {
                let mesh = exchange.result.mesh();
                devices([mesh, mesh]).into_iter().map(|device| state.device(device)).collect()
            }
        };
        let micros = |at: Instant| at.saturating_duration_since(self.start).as_nanos() as f64 / 1e3;
        let (ts, dur) = (micros(begun), micros(ended) - micros(begun));
        let (name, category, arguments) = words(event);
        for lane in lanes {
            state.write_raw(&format!(
                ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{lane},\"ts\":{ts:.3},\"dur\":{dur:.3},\"name\":{},\"cat\":\"{category}\",\"args\":{{{arguments}}}}}",
                json(&name)
            ));
        }
    }

    fn report(&self, _: &str, _: &'static str, _: &'static Location<'static>) {}
}

/// The devices of a step that this process addresses.
fn devices([from, to]: [&DeviceMesh; 2]) -> Vec<Device> {
    let mut all = Vec::new();
    for mesh in [from, to] {
        let kind = mesh.device(0).map(|device| device.kind);
        let Some(positions) = kind.and_then(|kind| backend_of(kind).ok()?.positions(mesh).ok()) else {
            continue;
        };
        all.extend(positions.iter().filter_map(|position| mesh.device(*position)));
        if from == to {
            break;
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Name, category and the members of the arguments.
fn words(event: &Event<'_>) -> (String, &'static str, String) {
    let list =
        |layouts: &[TensorLayout]| layouts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match event {
        Event::Op { name, at, operands, results } => {
            let bytes: usize = operands.iter().map(TensorLayout::bytes).sum();
            let text = format!(
                "\"operands\":{},\"results\":{},\"bytes\":{bytes},\"at\":{}",
                json(&list(operands)),
                json(&list(results)),
                json(&place(at))
            );
            ((*name).to_owned(), "op", text)
        }
        Event::Reshard { op, source, target } => {
            let text = format!(
                "\"op\":{},\"from\":{},\"to\":{},\"bytes\":{}",
                json(op),
                json(&source.to_string()),
                json(&target.mapping().to_string()),
                source.bytes()
            );
            ("reshard".to_owned(), "reshard", text)
        }
        Event::Step { op, step } => {
            let axes: Vec<&str> = step.axis_names().collect();
            let bytes = step.bytes();
            let text = format!(
                "\"op\":{},\"axes\":{},\"from\":{},\"to\":{},\"bytes\":{bytes:.0}",
                json(op),
                json(&axes.join(", ")),
                json(&step.source.to_string()),
                json(&step.target.mapping().to_string())
            );
            (step.kind.name().to_owned(), if step.kind.communicates() { "collective" } else { "local" }, text)
        }
        Event::Exchange { op, exchange, bytes } => {
            let axes: Vec<&str> = exchange.axis_names().collect();
            let from: Vec<String> = exchange.operands.iter().map(ToString::to_string).collect();
            let text = format!(
                "\"op\":{},\"axes\":{},\"from\":{},\"to\":{},\"bytes\":{bytes}",
                json(op),
                json(&axes.join(", ")),
                json(&from.join("; ")),
                json(&exchange.result.mapping().to_string())
            );
            ("permute".to_owned(), "collective", text)
        }
        Event::Kernel { op, name, inputs, result, bytes, .. } => {
            let text = format!(
                "\"op\":{},\"inputs\":{},\"result\":{},\"bytes\":{bytes}",
                json(op),
                json(inputs),
                json(result)
            );
            (name.clone(), "kernel", text)
        }
    }
}

/// A string of JSON.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
