//! What a change of placement on one mesh axis needs.

use super::Place;
use std::fmt;

/// The collective, or local step, that a change of placement on one mesh axis needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// Nothing.
    NoOp,
    /// Each device slices its copy.
    LocalSlice,
    /// The first device keeps its copy, the others hold the identity.
    KeepOneCopy,
    /// The pieces are joined on every device.
    AllGather,
    /// Pieces of one tensor axis are exchanged for pieces of another.
    AllToAll,
    /// The parts are combined on every device.
    AllReduce,
    /// The parts are combined, each device keeps a piece.
    ReduceScatter,
    /// Some index ranges change their device.
    Permute,
    /// There is no such step on one axis.
    Infeasible,
}

impl Transition {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Transition::NoOp => "no_op",
            Transition::LocalSlice => "local_slice",
            Transition::KeepOneCopy => "keep_one_copy",
            Transition::AllGather => "all_gather",
            Transition::AllToAll => "all_to_all",
            Transition::AllReduce => "all_reduce",
            Transition::ReduceScatter => "reduce_scatter",
            Transition::Permute => "permute",
            Transition::Infeasible => "infeasible",
        }
    }
    /// Whether devices exchange data.
    pub const fn communicates(self) -> bool {
        matches!(
            self,
            Transition::AllGather
                | Transition::AllToAll
                | Transition::AllReduce
                | Transition::ReduceScatter
                | Transition::Permute
        )
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// (from, to) kinds of placement, as policies name them. Custom localising placements count as sharded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TransitionKind {
    /// Replicated to sharded.
    RS = 1,
    /// Sharded to replicated.
    SR = 2,
    /// Sharded to sharded otherwise.
    SS = 4,
    /// Partial to replicated.
    PR = 8,
    /// Partial to sharded.
    PS = 16,
    /// Replicated to partial; in neither of the named sets.
    RP = 32,
}

impl TransitionKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [Self::RS, Self::SR, Self::SS, Self::PR, Self::PS, Self::RP];

    /// The text of a kind: `S>R`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RS => "R>S",
            Self::SR => "S>R",
            Self::SS => "S>S",
            Self::PR => "P>R",
            Self::PS => "P>S",
            Self::RP => "R>P",
        }
    }
    /// Its name as written in Rust: `TransitionKind::SR`.
    pub const fn path(self) -> &'static str {
        match self {
            Self::RS => "TransitionKind::RS",
            Self::SR => "TransitionKind::SR",
            Self::SS => "TransitionKind::SS",
            Self::PR => "TransitionKind::PR",
            Self::PS => "TransitionKind::PS",
            Self::RP => "TransitionKind::RP",
        }
    }

    /// The kind of a change, where it has one.
    pub fn of(from: Place, to: Place) -> Option<Self> {
        use Place::{Partial, Replicated};
        let split = |place: Place| place.tensor_axis().is_some();
        match (from, to) {
            (Replicated, Partial(_)) => Some(Self::RP),
            (Replicated, to) if split(to) => Some(Self::RS),
            (Partial(_), Replicated) => Some(Self::PR),
            (Partial(_), to) if split(to) => Some(Self::PS),
            (from, Replicated) if split(from) => Some(Self::SR),
            (from, to) if split(from) && split(to) => Some(Self::SS),
            _ => None,
        }
    }
}

/// A set of [`TransitionKind`]s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TransitionSet(u8);

/// Every transition that rules plan with.
pub const ALL_TRANSITIONS: TransitionSet = TransitionSet(1 | 2 | 4 | 8 | 16);
/// [`ALL_TRANSITIONS`] without Partial to Sharded, which tends to split a batch that nobody asked to split.
pub const DEFAULT_TRANSITIONS: TransitionSet = TransitionSet(1 | 2 | 4 | 8);

impl TransitionSet {
    /// The set without any.
    pub const NONE: Self = Self(0);

    /// The set of these kinds.
    pub fn of(kinds: &[TransitionKind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | *kind as u8))
    }
    /// Whether the set holds a kind.
    pub const fn contains(self, kind: TransitionKind) -> bool {
        self.0 & kind as u8 != 0
    }
    /// This set with one kind more.
    #[must_use]
    pub const fn with(self, kind: TransitionKind) -> Self {
        Self(self.0 | kind as u8)
    }
    /// The kinds in the set.
    pub fn kinds(self) -> impl Iterator<Item = TransitionKind> {
        TransitionKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
    /// The bits, for keys.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }
}

impl fmt::Display for TransitionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, kind) in self.kinds().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, kind.name())?;
        }
        f.write_str("}")
    }
}
impl fmt::Debug for TransitionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Place {
    /// What a change to `to` needs on one mesh axis of `ways` devices, for a tensor axis of `extent` (the one that
    /// this placement localises).
    pub fn transition_to(self, to: Place, extent: usize, ways: usize) -> Transition {
        use Place::{Custom, Partial, Replicated, Unknown};
        if self == to {
            return Transition::NoOp;
        }
        if let Custom(custom) = self {
            return custom.placement().transition_to(to, extent, ways);
        }
        match (self, to) {
            (Replicated, Partial(_)) => Transition::KeepOneCopy,
            (Partial(_), Replicated) => Transition::AllReduce,
            (Unknown, _) | (_, Unknown) | (Partial(_), Partial(_)) => Transition::Infeasible,
            (Replicated, to) if to.tensor_axis().is_some() => Transition::LocalSlice,
            (Partial(_), to) if to.tensor_axis().is_some() => Transition::ReduceScatter,
            (from, to) => Transition::between_splits(from, to),
        }
    }
}

impl Transition {
    /// The answer for a placement that localises a tensor axis, whatever its ranges: what every custom placement
    /// that keeps plain data may return from [`Placement::transition_to`](super::Placement::transition_to).
    pub fn between_splits(from: Place, to: Place) -> Self {
        match (from.tensor_axis(), to.tensor_axis()) {
            (Some(_), None) if to == Place::Replicated => Transition::AllGather,
            (Some(a), Some(b)) if a == b => Transition::Permute,
            (Some(_), Some(_)) => Transition::AllToAll,
            _ => Transition::Infeasible,
        }
    }
}
