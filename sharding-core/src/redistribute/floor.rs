//! What the way from a state to the target costs at least under the volume model, known before it is searched.
//!
//! In bytes of one device, on the average over all: what it holds at the end and not now it has to receive, and a gather or
//! an exchange of ranges costs no less than devices receive by it. An all_to_all may: of uneven cuts a device keeps less than
//! the share that it is priced by. But it costs no less than it lowers the bound: over `g` devices it makes what the bound
//! takes to be held now and at the end at most `g` times as large, and that is at most a piece. A step that combines parts costs
//! as much as what a device holds shrinks by it (all_reduce twice as much, for it gathers again), and nothing can be cut finer
//! before it than by all mesh axes that ever split anything. Averages know no rounding: they are what the model counts by for
//! collectives, and no more than what it counts for exchanges.
//!
//! Mesh axes that come to be Partial count as if they split throughout: keep_one_copy makes the whole of a piece and receives
//! nothing. Those that are Partial already never split again, and so count as if they had been Replicated from the start.

use super::axis_set::AxisSet;
use super::state::{Problem, Split, View};
use smallvec::SmallVec;

/// What the bound is worked out from.
pub(super) struct Floor<'a> {
    problem: &'a Problem<'a>,
    bytes: f64,
    /// Bytes of an element of the tensor axes that any placement names.
    unit: f64,
    /// Those tensor axes.
    ends: SmallVec<[End; 4]>,
    /// The mesh axes that split anything at the end, and those that are Partial then.
    sharded: AxisSet,
    kept: AxisSet,
    /// The mesh axes that split anything in some state, and those that come to be Partial.
    splitting: AxisSet,
}

/// A tensor axis, and how it is split at the end.
struct End {
    extent: usize,
    axes: AxisSet,
    /// The size of the largest piece.
    most: usize,
}

/// What is known of a state.
pub(super) struct Weight {
    /// The most elements that a device holds, as far as any placement splits the whole.
    pub(super) held: f64,
    /// What is still to be paid at least.
    pub(super) floor: f64,
}

impl<'a> Floor<'a> {
    /// `None` where a placement is foreign: its parts may be of any sizes.
    pub(super) fn new(problem: &'a Problem<'a>, bytes: f64) -> Option<Self> {
        if problem.any_custom() {
            return None;
        }
        let (goal, kept) = (problem.view(problem.goal), problem.kept());
        let end = |(split, at): (usize, &Split)| End {
            extent: at.extent,
            axes: goal.splits.get(split),
            most: problem.held_of(&goal, split),
        };
        Some(Self {
            problem,
            bytes,
            unit: problem.unit(),
            ends: problem.splits.iter().enumerate().map(end).collect(),
            sharded: goal.sharded,
            kept,
            splitting: problem.splitting().or(kept),
        })
    }

    pub(super) fn piece(&self, axes: AxisSet) -> f64 {
        self.bytes / self.problem.sizes.divisor(axes)
    }

    /// What any all_to_all costs and what is still to be paid after it, at least: it leaves devices as much as they held.
    pub(super) fn with_all_to_all(&self, view: &View) -> f64 {
        let kept = self.still_kept(view);
        self.piece(view.sharded) / 2.0 + self.rest(view, kept, self.grown(view, kept))
    }

    /// What is known of a state.
    pub(super) fn weigh(&self, view: &View) -> Weight {
        let sizes = &self.problem.sizes;
        // The bytes that a device holds now and at the end, on the average over all; at most. An index of one tensor axis is in
        // one piece now and in one then, so that of all coordinates on the mesh axes that cut it now or then, those of at most
        // one have it in both. Of the other tensor axes no device has more than the smaller piece.
        let (mut held, mut largest, mut share, mut parts) = (1.0, self.unit, 1.0_f64, 1.0_f64);
        for (split, End { extent, axes, most }) in self.ends.iter().enumerate() {
            let now = view.splits.get(split);
            let piece = extent.div_ceil(sizes.ways(now));
            let most = piece.min(*most) as f64;
            held *= piece as f64;
            largest *= most;
            // The least of all shares, without a division for each.
            let (extent, room) = (*extent as f64, sizes.divisor(now.or(*axes)) * most);
            if extent * parts < share * room {
                (share, parts) = (extent, room);
            }
        }
        // Along the mesh axes that come to be Partial it does not matter by whom it is held.
        let kept = self.still_kept(view);
        let by_any = largest * share / parts * sizes.divisor(kept.and(view.sharded));
        let missing = self.end(kept) - by_any / sizes.divisor(kept);
        Weight { held, floor: self.rest(view, kept, missing.max(self.grown(view, kept))) }
    }

    /// The mesh axes that come to be Partial and are not yet.
    fn still_kept(&self, view: &View) -> AxisSet {
        self.kept.minus(self.problem.arrived(view.code, self.kept))
    }

    /// What a device holds at the end, where those count as if they split.
    fn end(&self, kept: AxisSet) -> f64 {
        self.piece(self.sharded.or(kept))
    }

    /// What a device holds more at the end.
    fn grown(&self, view: &View, kept: AxisSet) -> f64 {
        (self.end(kept) - self.piece(view.sharded.or(kept))).max(0.0)
    }

    /// What is still to be paid at least where so much has to be received.
    fn rest(&self, view: &View, kept: AxisSet, received: f64) -> f64 {
        let parts = self.problem.parts(view.code).minus(self.kept);
        if parts.is_empty() {
            return received;
        }
        let never = self.kept.minus(kept).or(parts);
        let (finest, ways) = (self.piece(self.splitting.minus(never)), self.problem.sizes.divisor(parts));
        // Combining now and receiving what is missing now; or cutting first, which makes more to receive.
        let now = finest * (1.0 - 1.0 / ways) + received;
        now.max(self.end(kept) + finest * (1.0 - 2.0 / ways))
    }
}
