//! What the way from a state to the target costs at least under the volume model, known before it is searched.
//!
//! In bytes of one device, on the average over all: what it holds at the end and not now it has to receive, and a gather or
//! an exchange of ranges costs no less than devices receive by it. An all_to_all may: of uneven cuts a device keeps less than
//! the share that it is priced by. But it costs no less than it lowers the bound: over `g` devices it makes what
//! [`Floor::common`] says at most `g` times as large, and that is at most a piece. A step that combines parts costs as much as
//! what a device holds shrinks by it (all_reduce twice as much, for it gathers again), and nothing can be cut finer before it
//! than by all mesh axes that ever split anything. Averages know no rounding: they are what the model counts by for
//! collectives, and no more than what it counts for exchanges.

use super::axis_set::AxisSet;
use super::state::{Problem, Split, View};

/// What the bound is worked out from.
pub(super) struct Floor<'a> {
    problem: &'a Problem<'a>,
    bytes: f64,
    /// The state at the end.
    goal: View,
    /// Bytes of an element of the tensor axes that any placement names.
    unit: f64,
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
        let goal = problem.view(problem.goal);
        let end = bytes / problem.sizes.ways(goal.sharded.or(kept)) as f64;
        Some(Self {
            problem,
            bytes,
            goal,
            unit: problem.unit(),
            kept,
            splitting: problem.splitting().or(kept),
            end,
        })
    }

    pub(super) fn piece(&self, axes: AxisSet) -> f64 {
        self.bytes / self.problem.sizes.ways(axes) as f64
    }

    /// The bytes that a device holds in both states, on the average over all; at most. An index of one tensor axis is in one piece
    /// before and in one after, so that of all coordinates on the mesh axes that cut it before or after, those of at most one
    /// have it in both. Of the other tensor axes no device has more than the smaller piece.
    fn common(&self, old: &View, new: &View) -> f64 {
        let sizes = &self.problem.sizes;
        let (mut largest, mut share, mut parts) = (self.unit, 1.0_f64, 1.0_f64);
        for (split, Split { extent, .. }) in self.problem.splits.iter().enumerate() {
            let (from, to) = (old.splits.get(split), new.splits.get(split));
            let most = extent.div_ceil(sizes.ways(from).max(sizes.ways(to))) as f64;
            largest *= most;
            // The least of all shares, without a division for each.
            let (extent, room) = (*extent as f64, sizes.ways(from.or(to)) as f64 * most);
            if extent * parts < share * room {
                (share, parts) = (extent, room);
            }
        }
        largest * share / parts
    }

    /// What any all_to_all costs and what is still to be paid after it, at least: it leaves devices as much as they held.
    pub(super) fn with_all_to_all(&self, view: &View) -> f64 {
        self.piece(view.sharded) / 2.0 + self.rest(view, self.grown(view))
    }

    /// What is still to be paid at least.
    pub(super) fn from(&self, view: &View) -> f64 {
        self.rest(view, self.grown(view).max(self.missing(view)))
    }

    /// What a device holds more at the end.
    fn grown(&self, view: &View) -> f64 {
        (self.end - self.piece(view.sharded.or(self.kept))).max(0.0)
    }

    /// What is held at the end and not now. Along the mesh axes that are Partial at the end it does not matter by whom.
    fn missing(&self, view: &View) -> f64 {
        let sizes = &self.problem.sizes;
        let held_by_any = self.common(view, &self.goal) * sizes.ways(self.kept.and(view.sharded)) as f64;
        (self.end - held_by_any / sizes.ways(self.kept) as f64).max(0.0)
    }

    /// What is still to be paid at least where so much has to be received.
    fn rest(&self, view: &View, received: f64) -> f64 {
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
