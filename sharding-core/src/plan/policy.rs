//! Policies: which transitions an op may insert, and whether it says so.

use crate::placement::{ALL_TRANSITIONS, DEFAULT_TRANSITIONS, TransitionSet};

/// What happens when a plan has to move an operand by an allowed transition, or an op its elements: `concat`, `stack`, `repeat`
/// and `reshape` may leave operands where they are and exchange elements between devices, which counts as `S>S`. The sums and
/// maxima that an op combines on the way (softmax over a sharded axis) are a part of it and no reshard.
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

/// How the rows of an op are picked where there are several mesh axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PlannerKind {
    /// One mesh axis after the other, each by the score of its rows.
    #[default]
    PerAxis,
    /// All together, by what the redistributions cost that the rows need. Never dearer than `PerAxis`; takes longer to
    /// plan, the more so the more mesh axes there are. Asked for with [`Scope::with_planner`](crate::Scope::with_planner).
    ///
    /// An example on a mesh `dp=2, tp=4` is `matmul` of `a`, f32[64, 64] with its columns over tp, and `b`, f32[64, 64]
    /// with its columns over both. Axis by axis `a` is gathered over tp, 12288 bytes on each device: on tp alone that
    /// scores as much as exchanging `b`, and comes first. Together with dp, over which `b` is split already, the exchange
    /// moves 1536 bytes.
    Joint,
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
