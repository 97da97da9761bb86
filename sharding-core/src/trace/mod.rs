//! Watching a program: spans, a file of them, tables of what was moved, and assertions on that.
//!
//! Every op and whatever makes a tensor (`op`), redistribution (`reshard`), collective or local step (`redistribute`) and
//! kernel (`kernel`) is a span of the crate `tracing`, with shapes and bytes; where nobody subscribes they cost a load and a
//! branch each. The same events go to whoever watches the scope: [`trace_to_file`] writes them to a file, [`explain`] makes
//! a table of what moved, [`assert_comm!`](crate::assert_comm) compares that with what was expected. What watches is part of
//! the [`Scope`]: another thread that enters the scope is watched too. A collective of a region is seen, once, by whoever
//! watches any of the devices that meet, whichever thread runs it.

mod comm;
mod file;
mod report;
mod runs;
#[cfg(test)]
mod tests;

pub use crate::text::table;
pub use comm::{Allowed, check_comm};
#[doc(hidden)]
pub use comm::{Gave, OfAny, OfResult, check_comm_of};
pub use file::{TraceFile, trace_to_file};
pub use report::{CommReport, CommStep, Explained, explain};
pub use runs::Runs;

use crate::backend::{Exchange, LocalArray, Step};
use crate::{DType, Device, Scope, Shape, TensorLayout};
use std::panic::Location;
use std::sync::Arc;

/// Something that takes time.
pub(crate) enum Event<'a> {
    /// A call of an op, or a transfer.
    Op {
        name: &'static str,
        at: &'static Location<'static>,
        operands: Vec<TensorLayout>,
        results: Vec<TensorLayout>,
    },
    /// The redistribution of one operand.
    Reshard { op: &'static str, source: &'a TensorLayout, target: &'a TensorLayout },
    /// A step of a redistribution, or a collective of a staged function.
    Step { op: &'static str, step: &'a Step },
    /// An index map between shards, as part of an op; the most bytes that one device receives.
    Exchange { op: &'static str, exchange: &'a Exchange<'a>, bytes: usize },
    /// A kernel on one device.
    Kernel { op: &'static str, name: String, device: Device, inputs: String, result: String, bytes: usize },
}

/// Sees events begin and end, in their nesting on each thread.
pub(crate) trait Watch: Send + Sync {
    fn begin(&self, event: &Event<'_>);
    fn end(&self, event: &Event<'_>);
    /// The report of a call that moves operands; only if the scope asks for reports.
    fn report(&self, report: &str, op: &'static str, at: &'static Location<'static>);
}

/// All that watch a scope.
pub(crate) type Watchers = Vec<Arc<dyn Watch>>;

/// Ends its event when dropped, on whatever way out. (In a box, as nearly always there is none: what is not there is neither
/// moved nor dropped.)
pub(crate) struct Seen<'a>(Option<Box<(Event<'a>, Arc<Scope>)>>);

impl<'a> Seen<'a> {
    /// Begins an event, which is made only if somebody watches.
    #[inline]
    pub(crate) fn new(event: impl FnOnce() -> Event<'a>) -> Self {
        if crate::scope::is_watched() { Self::begin(event()) } else { Self(None) }
    }

    #[cold]
    fn begin(event: Event<'a>) -> Self {
        let scope = Scope::current();
        scope.watchers().iter().for_each(|watch| tell(|| watch.begin(&event)));
        Self(Some(Box::new((event, scope))))
    }

    /// Adds the results of an op.
    #[inline]
    pub(crate) fn results<'b>(&mut self, layouts: impl Iterator<Item = &'b TensorLayout>) {
        if let Some((Event::Op { results, .. }, _)) = self.0.as_deref_mut() {
            results.extend(layouts.cloned());
        }
    }
}

impl Drop for Seen<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((event, scope)) = self.0.as_deref() {
            // Innermost first, as they began outermost first.
            scope.watchers().iter().rev().for_each(|watch| tell(|| watch.end(event)));
        }
    }
}

/// Tells one that watches: it may not break what it only looks at, which in a region may be other devices' results.
pub(crate) fn tell(f: impl FnOnce()) {
    let _ = crate::dispatch::guarded("who watches", || {
        f();
        Ok(())
    });
}

/// Bytes of whole tensors together; `usize::MAX` where they do not fit.
pub(crate) fn bytes<'a>(layouts: impl IntoIterator<Item = &'a TensorLayout>) -> usize {
    layouts.into_iter().map(TensorLayout::bytes).fold(0, usize::saturating_add)
}

/// A kernel as an event.
pub(crate) fn kernel<'a>(
    op: &'static str,
    name: String,
    device: Device,
    inputs: &[&LocalArray],
    (dtype, shape): (DType, &Shape),
) -> Event<'a> {
    let texts: Vec<String> = inputs.iter().map(|x| format!("{}{}", x.dtype(), x.shape())).collect();
    let read = inputs.iter().map(|x| x.bytes()).fold(0, usize::saturating_add);
    let written = shape.elements().saturating_mul(dtype.size());
    Event::Kernel {
        op,
        name,
        device,
        inputs: texts.join(", "),
        result: format!("{dtype}{shape}"),
        bytes: read.saturating_add(written),
    }
}

/// The name of a primitive, `map` or `layer_norm`, from how it prints: a new one needs nothing here.
pub(crate) fn primitive_name(primitive: &crate::backend::Primitive) -> String {
    let text = format!("{primitive:?}");
    let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or("kernel");
    let word = if first == "Fused" { words.next().unwrap_or(first) } else { first };
    let mut name = String::new();
    for (i, c) in word.char_indices() {
        if c.is_uppercase() && i > 0 {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}

/// A place in a source file as `file:line`, without the detours of a path such as `ops/../examples/x.rs`.
pub fn place(at: &Location<'_>) -> String {
    format!("{}:{}", clean_path(at.file()), at.line())
}

fn clean_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match (part, parts.last()) {
            (".", _) => {}
            ("..", Some(last)) if !last.is_empty() && *last != ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}
