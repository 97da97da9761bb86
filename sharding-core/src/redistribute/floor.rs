//! What the way from a state to the target costs at least under the volume model, known before it is searched.
//!
//! In bytes of one device, on the average over all: what it holds more at the end than now it has to receive, and a step
//! by which devices receive costs no less than that. A step that combines parts costs as much as what a device holds
//! shrinks by it (all_reduce twice as much, for it gathers again), and nothing can be cut finer before it than by all mesh
//! axes that ever split anything. Averages know no rounding: they are what the model counts by for collectives, and no
//! more than what it counts for exchanges. No step costs less than it lowers this, so a search may go by the sum.

use super::axis_set::AxisSet;
use super::state::{Problem, View};

/// What the bound is worked out from.
pub(super) struct Floor<'a> {
    problem: &'a Problem<'a>,
    bytes: f64,
    /// The mesh axes that are Partial at the end: keep_one_copy makes the whole of a piece and receives nothing, so here
    /// they count as if they split throughout.
    kept: AxisSet,
    /// The mesh axes that split anything in some state, and those.
    splitting: AxisSet,
    /// What a device holds at the end.
    end: f64,
}

impl<'a> Floor<'a> {
    /// `None` where a placement is foreign: its parts may be of any sizes.
    pub(super) fn new(problem: &'a Problem<'a>, bytes: f64) -> Option<Self> {
        if problem.any_custom() {
            return None;
        }
        let kept = problem.kept();
        let end = bytes / problem.sizes.ways(problem.view(problem.goal).sharded.or(kept)) as f64;
        Some(Self { problem, bytes, kept, splitting: problem.splitting().or(kept), end })
    }

    fn piece(&self, axes: AxisSet) -> f64 {
        self.bytes / self.problem.sizes.ways(axes) as f64
    }

    /// What an exchange of ranges costs at least: along the mesh axes that no longer split, devices held different pieces
    /// of what all of them hold afterwards.
    pub(super) fn exchange(&self, old: &View, new: &View) -> f64 {
        let joined = self.problem.sizes.ways(old.sharded.minus(new.sharded)) as f64;
        self.piece(new.sharded) * (1.0 - 1.0 / joined)
    }

    /// What an all_to_all costs at least: the one over two devices, which keep half of what they hold.
    pub(super) fn all_to_all(&self, view: &View) -> f64 {
        self.piece(view.sharded) / 2.0
    }

    /// What is still to be paid at least.
    pub(super) fn from(&self, view: &View) -> f64 {
        let received = (self.end - self.piece(view.sharded.or(self.kept))).max(0.0);
        let parts = self.problem.parts(view.code).minus(self.kept);
        if parts.is_empty() {
            return received;
        }
        let (finest, ways) = (self.piece(self.splitting.minus(parts)), self.problem.sizes.ways(parts) as f64);
        // Combining now and receiving what is missing now; or cutting first, which makes more to receive.
        let now = finest * (1.0 - 1.0 / ways) + received;
        now.max(self.end + finest * (1.0 - 2.0 / ways))
    }
}
