//! A trace for Perfetto and chrome://tracing.

use super::{Event, Watch, place};
use crate::backend::backend_of;
use crate::{Device, DeviceMesh, Error, ErrorKind, Result, Scope, ScopeGuard, TensorLayout};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

/// Writes what runs in the present scope to a file, until the guard is dropped.
///
/// The file is JSON in the Trace Event Format, which <https://ui.perfetto.dev> and chrome://tracing open. A lane per
/// thread that calls ops has the ops and their reshards; a lane per device has its kernels and the collectives that it
/// took part in. Where several threads give a device work at the same time, it has another lane beside the first: in one
/// lane, events lie inside each other or apart. Times are those of this program, also on `sim`, where nothing is computed. Events carry shapes, mesh
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
/// [`ErrorKind::File`] if the file cannot be written.
pub fn trace_to_file(path: impl AsRef<Path>) -> Result<TraceFile> {
    let path = path.as_ref();
    let file = File::create(path).map_err(|error| {
        Error::new(ErrorKind::File, format!("cannot write the trace {}", path.display()))
            .with_fix("give a path in a folder that exists and may be written")
            .with_source(error)
    })?;
    let mut state = State {
        out: Some(BufWriter::new(file)),
        devices: BTreeMap::new(),
        lanes: 0,
        threads: HashMap::new(),
        begun: Vec::new(),
        failed: None,
    };
    state.write_raw(
        "[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"program\"}}",
    );
    let writer = Arc::new(Writer { start: Instant::now(), state: Mutex::new(state) });
    let guard = (*Scope::current()).clone().with_watcher(writer.clone()).guard();
    Ok(TraceFile { path: path.to_owned(), writer, guard: Some(guard) })
}

/// Ends a trace when dropped.
#[must_use = "the trace ends when the guard is dropped"]
pub struct TraceFile {
    path: PathBuf,
    writer: Arc<Writer>,
    guard: Option<ScopeGuard>,
}

impl TraceFile {
    /// Ends the trace.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if something could not be written (the disk is full).
    pub fn finish(mut self) -> Result<()> {
        self.close().map_err(|error| {
            Error::new(ErrorKind::File, format!("the trace {} is not whole", self.path.display()))
                .with_fix("make room where it is written, or give a path elsewhere")
                .with_source(error)
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
            tracing::warn!("the trace {} is not whole: {error}", self.path.display());
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
    /// Each device's number and its lanes.
    devices: BTreeMap<Device, (usize, Vec<DeviceLane>)>,
    /// How many lanes the devices have.
    lanes: usize,
    /// The numbers of the threads that called ops.
    threads: HashMap<ThreadId, usize>,
    /// When the events of a thread that have not ended began.
    begun: Vec<Vec<Instant>>,
    failed: Option<io::Error>,
}

/// A lane of a device, in which events are written in the order of their ends.
struct DeviceLane {
    id: usize,
    /// Whose event is the last in it, and when that ended.
    thread: usize,
    end: Instant,
    /// When the last one of any other thread ended.
    other_end: Option<Instant>,
}

impl DeviceLane {
    /// Whether an event of a thread overlaps with none of other threads in it. Those of one thread are nested anyway.
    fn takes(&self, thread: usize, begun: Instant) -> bool {
        let others = if self.thread == thread { self.other_end } else { Some(self.end) };
        others.is_none_or(|end| end <= begun)
    }

    fn take(&mut self, thread: usize, ended: Instant) {
        if self.thread != thread {
            (self.thread, self.other_end) = (thread, Some(self.end));
        }
        self.end = ended;
    }
}

/// The lane of a thread, by its number: lanes of threads are odd, those of devices even.
fn thread_lane(thread: usize) -> usize {
    2 * thread + 1
}

/// Lanes of devices stand below those of so many threads.
const THREADS_ABOVE: usize = 1 << 20;
/// A device's lanes stand together: there are at most so many.
const LANES: usize = 1 << 16;

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
        let (current, number) = (std::thread::current(), self.threads.len());
        if let Some(known) = self.threads.get(&current.id()) {
            return *known;
        }
        self.threads.insert(current.id(), number);
        self.begun.push(Vec::new());
        let name = format!("ops of thread {}", current.name().unwrap_or("without a name"));
        self.name_lane(thread_lane(number), number, &name);
        number
    }

    /// The lane of a device for an event of a thread that has just ended.
    fn device(&mut self, device: Device, thread: usize, begun: Instant, ended: Instant) -> usize {
        let next = self.devices.len();
        let (number, lanes) = self.devices.entry(device).or_insert_with(|| (next, Vec::new()));
        // First where the thread was last: else each would drive others from lane to lane.
        let own = lanes.iter().position(|lane| lane.thread == thread && lane.takes(thread, begun));
        let free = || lanes.iter().position(|lane| lane.takes(thread, begun));
        if let Some(lane) = own.or_else(free).and_then(|at| lanes.get_mut(at)) {
            lane.take(thread, ended);
            return lane.id;
        }
        let (number, beside) = (*number, lanes.len());
        self.lanes += 1;
        let id = 2 * self.lanes;
        lanes.push(DeviceLane { id, thread, end: ended, other_end: None });
        let name = if beside == 0 { device.to_string() } else { format!("{device} ({})", beside + 1) };
        self.name_lane(id, THREADS_ABOVE + number * LANES + beside.min(LANES - 1), &name);
        id
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
        let mut state = self.lock();
        // Under the lock: events are written in the order of their ends.
        let ended = Instant::now();
        let thread = state.thread();
        let Some(begun) = state.begun.get_mut(thread).and_then(Vec::pop) else { return };
        if state.out.is_none() {
            return;
        }
        let devices = match event {
            Event::Op { .. } | Event::Reshard { .. } => Vec::new(),
            Event::Kernel { device, .. } => vec![*device],
            Event::Step { step, .. } => devices([step.source.mesh(), step.target.mesh()]),
            Event::Exchange { exchange, .. } => devices([exchange.result.mesh(); 2]),
        };
        let lanes: Vec<usize> = match event {
            Event::Op { .. } | Event::Reshard { .. } => vec![thread_lane(thread)],
            _ => devices.into_iter().map(|device| state.device(device, thread, begun, ended)).collect(),
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
            // Of a tensor that is made of no operand its own.
            let bytes = super::bytes(if operands.is_empty() { results } else { operands });
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
