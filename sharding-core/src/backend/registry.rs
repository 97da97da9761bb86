//! How backends are found.

use super::Backend;
use crate::{BackendKind, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A backend that a linked crate offers; submitted through [`inventory`].
pub struct BackendDef {
    /// The kind of its devices.
    pub kind: BackendKind,
    /// Opens it; called once, at the first use of a device of its kind. Never panics.
    pub open: fn() -> Result<Arc<dyn Backend>>,
    /// File and line of the submission.
    pub at: (&'static str, u32),
}

inventory::collect!(BackendDef);

struct Entry {
    def: &'static BackendDef,
    twice: Option<&'static BackendDef>,
    opened: OnceLock<std::result::Result<Arc<dyn Backend>, (ErrorKind, String)>>,
}

static BACKENDS: OnceLock<BTreeMap<&'static str, Entry>> = OnceLock::new();

fn backends() -> &'static BTreeMap<&'static str, Entry> {
    BACKENDS.get_or_init(|| {
        let mut all: BTreeMap<&'static str, Entry> = BTreeMap::new();
        for def in inventory::iter::<BackendDef> {
            all.entry(def.kind.name()).and_modify(|entry| entry.twice = Some(def)).or_insert(Entry {
                def,
                twice: None,
                opened: OnceLock::new(),
            });
        }
        all
    })
}

/// The backend of a kind.
///
/// # Errors
/// [`ErrorKind::Registry`] if none is linked (with the feature to enable) or two are, else what opening it said.
pub fn backend_of(kind: BackendKind) -> Result<&'static Arc<dyn Backend>> {
    let all = backends();
    let Some(entry) = all.get(kind.name()) else {
        let known: Vec<_> = all.keys().copied().collect();
        let fix = match kind.name() {
            "cpu" | "cuda" | "sim" => format!("enable the feature \"{kind}\" of sharding-ops"),
            _ => format!(
                "link the crate that registers it: use that_crate as _; (linked now: {})",
                known.join(", ")
            ),
        };
        return Err(Error::new(
            ErrorKind::Registry,
            format!("no backend for the device kind {kind} is linked"),
        )
        .with_fix(fix));
    };
    if let Some(twice) = entry.twice {
        let ((file, line), (other, at)) = (entry.def.at, twice.at);
        return Err(Error::new(
            ErrorKind::Registry,
            format!("two backends are registered for {kind}: at {file}:{line} and at {other}:{at}"),
        )
        .with_fix("remove one of them, or give it a kind of its own"));
    }
    let opened =
        entry.opened.get_or_init(|| (entry.def.open)().map_err(|error| (error.kind(), error.to_string())));
    opened.as_ref().map_err(|(kind, message)| Error::new(*kind, message.clone()))
}
