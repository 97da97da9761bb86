//! One call of a collective: what all members of a group must say alike.

use super::agreement::{Break, Caller, End};
use super::grid::Grid;
use super::over::Over;
use crate::{DType, Error, ErrorKind, Places, ReduceOp, Shape};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// What is done with the values of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Collective {
    /// Combined; the same for all.
    Reduce(ReduceOp),
    /// Joined along a tensor axis; the same for all.
    Gather(usize),
    /// Summed; each gets its piece of a tensor axis.
    Scatter(usize),
    /// Each gives every other a piece of the one tensor axis, and joins what it gets along another.
    Exchange { split: usize, concat: usize },
    /// Values go from one place in the group to another, by pairs; who gets none has zeros.
    Permute(Arc<[(usize, usize)]>),
}

/// Equal calls agree, wherever they stand in the program.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) over: Over,
    pub(super) collective: Collective,
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    /// On the mesh axes that are not manual.
    pub(super) places: Places,
    pub(super) at: &'static Location<'static>,
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        let Self { name, over, collective, dtype, shape, places, at: _ } = self;
        (name, dtype) == (&other.name, &other.dtype)
            && (over, collective) == (&other.over, &other.collective)
            && (shape, places) == (&other.shape, &other.places)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}{} over {}", self.name, self.dtype, self.shape, self.over)?;
        match &self.collective {
            Collective::Reduce(_) => {}
            Collective::Gather(axis) => write!(f, ", joined on axis {axis}")?,
            Collective::Scatter(axis) => write!(f, ", split on axis {axis}")?,
            Collective::Exchange { split, concat } => {
                write!(f, ", split on axis {split} and joined on axis {concat}")?;
            }
            Collective::Permute(pairs) => write!(f, " by {pairs:?}")?,
        }
        if self.places.iter().any(|place| *place != crate::Place::Replicated) {
            write!(f, ", placed {:?}", self.places.as_slice())?;
        }
        Ok(())
    }
}

/// What the devices did that can no longer become a meeting, as an error for each of them.
pub(super) fn broken(grid: &Grid, why: &Break<Call>) -> Error {
    let said = |caller: &Caller<Call>| {
        format!(
            "{} (its collective {}, at {})",
            caller.call,
            caller.count,
            crate::trace::place(caller.call.at)
        )
    };
    let name = |member: usize| grid.name(member);
    let how = |end: &End| match end {
        End::Returned => "returned".to_owned(),
        End::Failed(text) => format!("failed: {text}"),
        End::Panicked(text) => format!("panicked: {text}"),
    };
    let (message, fix) = match why {
        Break::Differ(a, b) => (
            format!(
                "the devices do not call the same: {} calls {}, {} calls {}",
                name(a.member),
                said(a),
                name(b.member),
                said(b)
            ),
            "call the same collective with the same arguments on all devices that meet",
        ),
        Break::Gone { waiting, member, count, end } => (
            format!(
                "{} waits in {} for {}, which {} after {count} collectives",
                name(waiting.member),
                said(waiting),
                name(*member),
                how(end)
            ),
            "call as many collectives on all devices that meet, whatever data they branch on",
        ),
        Break::Ended { member, end } => {
            (format!("the region stops on all devices: {} {}", name(*member), how(end)), "see to that device")
        }
        Break::Stuck(a, b) => (
            format!(
                "every device waits: {} waits in {} for {}, which waits in {}",
                name(a.member),
                said(a),
                name(b.member),
                said(b)
            ),
            "call collectives over different mesh axes in the same order on all devices",
        ),
    };
    Error::new(ErrorKind::Manual, message).with_op("shard_map").with_fix(fix)
}
