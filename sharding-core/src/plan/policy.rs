//! Policies: which transitions an op may insert, and whether it says so.

use crate::placement::{ALL_TRANSITIONS, DEFAULT_TRANSITIONS, TransitionSet};

/// What happens when a plan has to move an operand by an allowed transition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is moved.
    #[default]
    Silent,
    /// It is moved and the report goes out through `tracing` at level WARN.
    Warn,
    /// The op refuses with an error, even for a free local slice.
    Raise,
}

/// The transitions that ops may insert, and the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The transitions that may be inserted.
    pub allowed: TransitionSet,
    /// What happens then.
    pub mode: Mode,
}

impl Default for Policy {
    fn default() -> Self {
        Self { allowed: DEFAULT_TRANSITIONS, mode: Mode::Silent }
    }
}

impl Policy {
    /// Default transitions, silently.
    pub fn silent() -> Self {
        Self::default()
    }
    /// Default transitions, with a report.
    pub fn warn() -> Self {
        Self { mode: Mode::Warn, ..Self::default() }
    }
    /// Nothing moves.
    pub fn raise() -> Self {
        Self { mode: Mode::Raise, ..Self::default() }
    }
    /// The same mode with every transition that rules plan with.
    #[must_use]
    pub fn all(self) -> Self {
        self.allow(ALL_TRANSITIONS)
    }
    /// The same mode with these transitions.
    #[must_use]
    pub fn allow(self, allowed: TransitionSet) -> Self {
        Self { allowed, ..self }
    }
    /// The bits that tell policies apart.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.allowed.bits()) | (self.mode as u64) << 8
    }
}
