//! What moved between the devices, as the program saw it: a `tracing` subscriber that counts the steps of redistributions.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The target of the spans that name places in the model.
pub(crate) const PLACE: &str = "encoder::place";

/// The span of the library around each step of a redistribution.
const STEP: &str = "redistribute";

/// The step that touches no data: over a mesh axis of one device.
const RELABEL: &str = "relabel";

/// A part of the model; what moves inside is counted for it.
macro_rules! place {
    ($name:literal) => {
        tracing::info_span!(target: $crate::collectives::PLACE, $name)
    };
}
pub(crate) use place;

/// The collectives (and the local steps) that ran under it, counted by their place in the model. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Collectives(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: AtomicU64,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Places that are open, by span.
    open: HashMap<u64, &'static str>,
    /// The places that are entered, the innermost last. One thread drives all devices.
    entered: Vec<&'static str>,
    ran: BTreeMap<(&'static str, String), Ran>,
}

/// How often a step ran, and the bytes that one device sent in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ran {
    /// How often.
    pub times: usize,
    /// Bytes that a device sends, by the price of the step; 0 for steps without communication.
    pub bytes: f64,
}

impl Collectives {
    /// Runs `f` and counts what moves.
    pub fn count<T>(&self, f: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(self.clone(), f)
    }

    /// Place in the model, step with its mesh axes (`all_reduce(tp)`), and how often it ran.
    pub fn ran(&self) -> Vec<(&'static str, String, Ran)> {
        let counts = self.lock();
        counts.ran.iter().map(|((place, step), ran)| (*place, step.clone(), *ran)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fields of a step's span.
#[derive(Debug, Default)]
struct Step {
    kind: String,
    axes: String,
    bytes: f64,
}

impl Visit for Step {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "kind" {
            self.kind = value.to_owned();
        }
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "bytes" {
            self.bytes = value;
        }
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "axes" {
            self.axes = format!("{value:?}");
        }
    }
}

impl Subscriber for Collectives {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.is_span() && (of.name() == STEP || of.target() == PLACE)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        // Ids begin at 1.
        let id = self.0.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut counts = self.lock();
        if span.metadata().target() == PLACE {
            counts.open.insert(id, span.metadata().name());
        } else {
            let mut step = Step::default();
            span.record(&mut step);
            if step.kind == RELABEL {
                return Id::from_u64(id);
            }
            let place = counts.entered.last().copied().unwrap_or("elsewhere");
            let ran = counts.ran.entry((place, format!("{}({})", step.kind, step.axes))).or_default();
            ran.times += 1;
            // Prices of local steps only put them in order.
            ran.bytes += if is_local(&step.kind) { 0.0 } else { step.bytes };
        }
        Id::from_u64(id)
    }

    fn enter(&self, span: &Id) {
        let mut counts = self.lock();
        if let Some(place) = counts.open.get(&span.into_u64()).copied() {
            counts.entered.push(place);
        }
    }

    fn exit(&self, span: &Id) {
        let mut counts = self.lock();
        if counts.open.contains_key(&span.into_u64()) {
            counts.entered.pop();
        }
    }

    fn try_close(&self, span: Id) -> bool {
        self.lock().open.remove(&span.into_u64());
        true
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
}

fn is_local(kind: &str) -> bool {
    ["local_slice", "keep_one_copy"].contains(&kind)
}

/// A table.
impl fmt::Display for Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ran = self.ran();
        if ran.is_empty() {
            return writeln!(f, "moved: nothing");
        }
        writeln!(f, "moved:                                times  bytes sent by a device")?;
        for (place, step, Ran { times, bytes }) in ran {
            writeln!(f, "  {place:<18} {step:<16} {times:>5}  {bytes:>12.0}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_ops::*;

    #[test]
    fn steps_are_counted_where_they_run() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
        let whole = DeviceMapping::replicated(&mesh);
        let split = DeviceMapping::new(&mesh, [Sharded(0)]).unwrap();
        let x = Tensor::from_slice(&[1.0_f32; 8], [8], &whole).unwrap();
        let collectives = Collectives::default();
        assert_eq!(collectives.to_string(), "moved: nothing\n");
        collectives.count(|| {
            place!("outer").in_scope(|| {
                place!("inner").in_scope(|| x.transfer_to(&split).unwrap());
                x.transfer_to(&split).unwrap().transfer_to(&whole).unwrap();
            });
            sum(&x.transfer_to(&split).unwrap(), 0, false).unwrap().transfer_to(&whole).unwrap();
        });
        let local = |times| Ran { times, bytes: 0.0 };
        let step = |place, step: &str, ran| (place, step.to_owned(), ran);
        assert_eq!(
            collectives.ran(),
            [
                step("elsewhere", "all_reduce(tp)", Ran { times: 1, bytes: 4.0 }),
                step("elsewhere", "local_slice(tp)", local(1)),
                step("inner", "local_slice(tp)", local(1)),
                step("outer", "all_gather(tp)", Ran { times: 1, bytes: 16.0 }),
                step("outer", "local_slice(tp)", local(1)),
            ]
        );
        assert!(collectives.to_string().contains("all_gather(tp)       1            16"), "{collectives}");
    }
}
