//! Placement states of one mesh, and which steps between them are legal.
//!
//! On the way every mesh axis wears its source placement, `Replicated`, or its target placement; where parts are combined
//! also a split of another tensor axis, its detour, so that they can be combined in pieces. Two facts keep states
//! small. A mesh axis splits at most one tensor axis, so what a group of devices holds together is a product of one
//! set of indices per tensor axis, and legality is decided tensor axis by tensor axis. And several mesh axes split a
//! tensor axis in mesh order, so which ones do is a set, and "the first of them" is a prefix of it.

use super::axis_set::{AxisSet, BySet, MAX_SPLIT, Sizes, Splits, nests};
use crate::backend::StepKind;
use crate::placement::{Interned, sharded};
use crate::{MAX_MESH_AXES, Place, Places, ReduceOp, TensorLayout};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// A placement of the open trait on the mesh axis that has it.
#[derive(Clone, Copy)]
pub(super) struct Foreign {
    pub(super) interned: &'static Interned,
    /// The most indices that a device holds.
    pub(super) most: usize,
}

impl Foreign {
    fn new(interned: &'static Interned, extent: usize, ways: usize) -> Self {
        let size =
            |part| interned.placement().ranges(extent, ways, part).iter().map(|range| range.len()).sum();
        // Enough to prune by: beyond that many parts the whole stands for the largest.
        let most = if ways > MAX_PARTS { extent } else { (0..ways).map(size).max().unwrap_or(0) };
        Self { interned, most }
    }
}

/// What a placement does, for the search.
#[derive(Clone, Copy)]
pub(super) enum Slot {
    Whole,
    /// Splits tensor axis number `split` (of [`Problem::splits`]).
    Local {
        split: usize,
        custom: Option<Foreign>,
    },
    Partial(ReduceOp),
    /// Stays as it is: Unknown, or a placement without a tensor axis.
    Fixed,
}

/// The stations of a mesh axis on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(super) enum Station {
    Source = 0,
    Whole = 1,
    Target = 2,
    Detour = 3,
}

/// Where mesh axes go in one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Toward {
    Whole,
    Target,
    Detour,
    /// To the target, but no further than Replicated where that is Partial: an exchange of ranges makes no parts.
    Ranges,
}

/// A state: two bits for each mover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Code(pub(super) u16);

impl Code {
    fn station(self, index: usize) -> Station {
        match self.0 >> (2 * index) & 3 {
            0 => Station::Source,
            1 => Station::Whole,
            2 => Station::Target,
            _ => Station::Detour,
        }
    }
    fn with(self, index: usize, station: Station) -> Self {
        Self(self.0 & !(3 << (2 * index)) | (station as u16) << (2 * index))
    }
}

/// A mesh axis whose placement may change on the way.
pub(super) struct Mover {
    pub(super) axis: usize,
    slots: [Slot; 4],
    /// What it splits at each station.
    splits: [Splits; 4],
    places: [Place; 4],
    /// Source and target are equal: it moves only to make way for others.
    stays: bool,
}

impl Mover {
    fn slot(&self, station: Station) -> Slot {
        self.slots.get(station as usize).copied().unwrap_or(Slot::Fixed)
    }
    fn place(&self, station: Station) -> Place {
        self.places.get(station as usize).copied().unwrap_or(Place::Replicated)
    }
    /// Where it comes by a step.
    fn after(&self, toward: Toward) -> Station {
        match toward {
            Toward::Whole => self.whole(),
            Toward::Ranges if matches!(self.slot(Station::Target), Slot::Partial(_)) => self.whole(),
            Toward::Target | Toward::Ranges => Station::Target,
            Toward::Detour => Station::Detour,
        }
    }
    fn has_detour(&self) -> bool {
        matches!(self.slot(Station::Detour), Slot::Local { .. })
    }
    /// Where it is when it is Replicated.
    fn whole(&self) -> Station {
        if matches!(self.slot(Station::Target), Slot::Whole) { Station::Target } else { Station::Whole }
    }
}

/// A tensor axis that some placement names.
#[derive(Clone, Copy)]
pub(super) struct Split {
    pub(super) axis: usize,
    pub(super) extent: usize,
}

/// A state, decoded.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub(super) code: Code,
    /// Which mesh axes split each tensor axis that any placement names.
    pub(super) splits: Splits,
    /// The mesh axes that split anything.
    pub(super) sharded: AxisSet,
}

/// The sets of mesh axes that each kind of step could change now.
#[derive(Clone, Copy, Default)]
pub(super) struct Choices {
    pub(super) all_reduce: AxisSet,
    pub(super) reduce_scatter: AxisSet,
    pub(super) all_gather: AxisSet,
    pub(super) local_slice: AxisSet,
    pub(super) keep_one_copy: AxisSet,
    pub(super) all_to_all: AxisSet,
    /// To their detours by reduce_scatter, by local_slice and by all_to_all.
    pub(super) scatter_aside: AxisSet,
    pub(super) slice_aside: AxisSet,
    pub(super) exchange_aside: AxisSet,
    /// To their detours by an exchange of ranges.
    pub(super) permute_aside: AxisSet,
    /// Split or Replicated, with ranges to gain or to lose.
    pub(super) permute: AxisSet,
    /// Everything that is not at its target.
    pub(super) open: AxisSet,
}

/// Source and target as the search sees them.
pub(super) struct Problem<'a> {
    pub(super) source: &'a TensorLayout,
    pub(super) target: &'a TensorLayout,
    pub(super) sizes: Sizes,
    pub(super) movers: SmallVec<[Mover; 4]>,
    pub(super) splits: SmallVec<[Split; 4]>,
    /// Mesh axes that stay, by what they split.
    pinned: Splits,
    /// The bits of a code that are those of mesh axes.
    bits: BySet<u16>,
    /// The code after all have gone somewhere and what they split then, by [`Toward`].
    gone: [(u16, Splits); 4],
    /// The mesh axes whose parts are combined on the way.
    combined: AxisSet,
    /// Custom placements that stay, by mesh axis.
    customs: SmallVec<[(usize, Foreign); 1]>,
    any_custom: bool,
    pub(super) source_op: Option<ReduceOp>,
    pub(super) target_op: Option<ReduceOp>,
    pub(super) start: Code,
    pub(super) goal: Code,
    /// The mesh axes that hang together through tensor axes that they split before or after.
    components: SmallVec<[AxisSet; 4]>,
    /// The most elements that a device holds before or after.
    pub(super) limit: f64,
    /// See [`Problem::wide`].
    wide: Option<usize>,
    /// Whether parts have to be combined in the tree of all at once, see [`Problem::keeps_tree`].
    pub(super) ordered: bool,
}

impl<'a> Problem<'a> {
    /// The problem of two layouts on meshes of one shape, which agree wherever one is Unknown and whose placements on
    /// mesh axes of size 1 are equal.
    pub(super) fn new(source: &'a TensorLayout, target: &'a TensorLayout) -> Self {
        Self::of(source, target, None)
    }

    /// The same problem with more states: all mesh axes that split a tensor axis may make way, and all have a detour, however
    /// uneven: the `nth` best of the tensor axes that they do not split anyway.
    pub(super) fn wide(source: &'a TensorLayout, target: &'a TensorLayout, nth: usize) -> Self {
        Self::of(source, target, Some(nth))
    }

    fn of(source: &'a TensorLayout, target: &'a TensorLayout, wide: Option<usize>) -> Self {
        let sizes = Sizes::of(source.mesh());
        let mut problem = Self {
            source,
            target,
            sizes,
            movers: SmallVec::new(),
            splits: SmallVec::new(),
            pinned: Splits::default(),
            bits: BySet::of([0; MAX_MESH_AXES], 0, |a, b| a | b),
            gone: [(0, Splits::default()); 4],
            combined: AxisSet::EMPTY,
            customs: SmallVec::new(),
            any_custom: false,
            source_op: source.places().iter().find_map(|place| place.reduce_op()),
            target_op: target.places().iter().find_map(|place| place.reduce_op()),
            start: Code::default(),
            goal: Code::default(),
            components: SmallVec::new(),
            limit: 0.0,
            wide,
            ordered: false,
        };
        // The mesh axes of each tensor axis, before or after; and the tensor axes that change.
        let mut named = Splits::default();
        let mut changing = [false; MAX_SPLIT];
        let pairs = || source.places().iter().copied().zip(target.places().iter().copied()).enumerate();
        for (axis, (from, to)) in pairs() {
            for place in [from, to] {
                if let Slot::Local { split, .. } = problem.slot(axis, place) {
                    named = named.or(Splits::only(split, AxisSet::of(axis)));
                    if from != to
                        && let Some(slot) = changing.get_mut(split)
                    {
                        *slot = true;
                    }
                }
            }
        }
        for (axis, (from, to)) in pairs() {
            let (a, b) = (problem.slot(axis, from), problem.slot(axis, to));
            let stays = from == to;
            let makes_way = |slot: Slot| match slot {
                Slot::Local { split, .. } => wide.is_some() || changing.get(split).copied().unwrap_or(false),
                _ => false,
            };
            if stays && !makes_way(a) {
                if let Slot::Local { split, custom } = a {
                    problem.pinned = problem.pinned.or(Splits::only(split, AxisSet::of(axis)));
                    problem.customs.extend(custom.map(|custom| (axis, custom)));
                }
                continue;
            }
            let index = problem.movers.len();
            let begin = match a {
                _ if stays => Station::Target,
                Slot::Whole => Station::Whole,
                _ => Station::Source,
            };
            problem.start = problem.start.with(index, begin);
            problem.goal = problem.goal.with(index, Station::Target);
            problem.movers.push(Mover {
                axis,
                slots: [a, Slot::Whole, b, Slot::Fixed],
                splits: [Splits::default(); 4],
                places: [from, Place::Replicated, to, Place::Unknown],
                stays,
            });
        }
        problem.plan_detours();
        problem.plan_codes();
        problem.join(named);
        let ends = [problem.view(problem.start), problem.view(problem.goal)];
        problem.limit = ends.iter().map(|end| problem.held(end)).fold(0.0, f64::max);
        problem
    }

    /// Gives mesh axes a detour if parts are combined.
    fn plan_detours(&mut self) {
        let combines =
            |mover: &&Mover| matches!(mover.slot(Station::Source), Slot::Partial(_)) && !mover.stays;
        let combined = self.movers.iter().filter(combines).count();
        self.ordered = combined > 1 && self.source_op.is_some_and(|op| op.rounds(self.source.dtype()));
        if !self.is_wide() && combined == 0 {
            return;
        }
        let ways: usize = self.source.mesh().shape().iter().product();
        for index in 0..self.movers.len() {
            if self.is_wide() || self.movers.get(index).is_some_and(|mover| !mover.stays) {
                self.plan_detour(index, ways);
            }
        }
    }

    /// The detour of a mover, one of the tensor axes that it does not split anyway: the one that is most likely of use, or what
    /// [`Problem::wide`] says. Good is one that no later mesh axis splits before, for parts do not come there by an exchange,
    /// and none after, so that it can go by itself; then one that so many ways cut evenly. In a wide problem an exchange leads
    /// anywhere, but only the last mesh axis can give its split up for a copy: so after counts for more.
    fn plan_detour(&mut self, index: usize, ways: usize) {
        let Some(mover) = self.movers.get(index) else { return };
        let (mesh_axis, names) =
            (mover.axis, [Station::Source, Station::Target].map(|at| mover.place(at).tensor_axis()));
        let axes = self.source.shape().iter().copied().enumerate().rev();
        let mut free: SmallVec<[(usize, usize); 4]> =
            axes.filter(|(t, _)| !names.contains(&Some(*t))).collect();
        let is_last = |end: &TensorLayout, t: usize| {
            !end.places().iter().skip(mesh_axis + 1).any(|place| place.tensor_axis() == Some(t))
        };
        let [before, after] = [self.source, self.target];
        let picked = match self.wide {
            None => {
                let merit = |(t, extent): &&(usize, usize)| {
                    let even = extent.is_multiple_of(ways);
                    ((is_last(before, *t), is_last(after, *t)), even, if even { *t } else { *extent })
                };
                let fitting = free.iter().filter(|(_, extent)| self.ordered || extent.is_multiple_of(ways));
                fitting.max_by_key(merit)
            }
            Some(nth) => {
                free.sort_by_key(|(t, _)| Reverse((is_last(after, *t), is_last(before, *t))));
                free.get(nth).or(free.first())
            }
        };
        let Some(&(t, _)) = picked else { return };
        let is_new = !self.splits.iter().any(|split| split.axis == t);
        if is_new && self.splits.len() == MAX_SPLIT {
            return;
        }
        let place = sharded(t);
        let slot = self.slot(mesh_axis, place);
        if let Some(Mover { slots: [.., aside], places: [.., label], .. }) = self.movers.get_mut(index) {
            (*aside, *label) = (slot, place);
        }
    }

    fn plan_codes(&mut self) {
        self.combined = self.partial_at(Station::Source);
        let mut bits = [0; MAX_MESH_AXES];
        for (index, mover) in self.movers.iter_mut().enumerate() {
            for (splits, slot) in mover.splits.iter_mut().zip(mover.slots) {
                if let Slot::Local { split, .. } = slot {
                    *splits = Splits::only(split, AxisSet::of(mover.axis));
                }
            }
            if let Some(bits) = bits.get_mut(mover.axis) {
                *bits = 3 << (2 * index);
            }
            let towards = [Toward::Whole, Toward::Target, Toward::Detour, Toward::Ranges];
            for ((code, splits), toward) in self.gone.iter_mut().zip(towards) {
                let station = mover.after(toward);
                *code |= (station as u16) << (2 * index);
                *splits = splits.or(mover.splits.get(station as usize).copied().unwrap_or_default());
            }
        }
        self.bits = BySet::of(bits, 0, |a, b| a | b);
    }

    fn join(&mut self, named: Splits) {
        for mover in &self.movers {
            let mut joined = AxisSet::of(mover.axis);
            joined = (0..self.splits.len())
                .map(|split| named.get(split))
                .filter(|set| set.contains(mover.axis))
                .fold(joined, AxisSet::or);
            self.components.retain(|known| {
                let apart = known.and(joined).is_empty();
                if !apart {
                    joined = joined.or(*known);
                }
                apart
            });
            self.components.push(joined);
        }
    }

    fn slot(&mut self, mesh_axis: usize, place: Place) -> Slot {
        // A mesh axis of size 1 splits nothing. (A custom placement there may still reorder; see `program`.)
        let trivial = self.sizes.get(mesh_axis) == 1;
        match place {
            Place::Replicated => Slot::Whole,
            Place::Sharded(_) | Place::Partial(_) if trivial => Slot::Whole,
            Place::Partial(op) => Slot::Partial(op),
            Place::Unknown => Slot::Fixed,
            Place::Sharded(_) | Place::Custom(_) => {
                let Some(axis) = place.tensor_axis() else { return Slot::Fixed };
                let extent = self.source.shape().extent(axis);
                let custom = match place {
                    Place::Custom(custom) => Some(Foreign::new(custom, extent, self.sizes.get(mesh_axis))),
                    _ => None,
                };
                self.any_custom |= custom.is_some();
                let known = self.splits.iter().position(|split| split.axis == axis);
                let split = known.unwrap_or(self.splits.len());
                if known.is_none() {
                    self.splits.push(Split { axis, extent });
                }
                Slot::Local { split, custom }
            }
        }
    }

    /// Decodes a state.
    pub(super) fn view(&self, code: Code) -> View {
        let at = |(index, mover): (usize, &Mover)| {
            mover.splits.get(code.station(index) as usize).copied().unwrap_or_default()
        };
        let splits = self.movers.iter().enumerate().map(at).fold(self.pinned, Splits::or);
        View { code, splits, sharded: splits.all() }
    }

    /// The mesh axes that split anything in some state.
    pub(super) fn splitting(&self) -> AxisSet {
        let everywhere = self.movers.iter().flat_map(|mover| mover.splits);
        everywhere.fold(self.pinned, Splits::or).all()
    }

    /// The mesh axes whose parts are still to be combined.
    pub(super) fn parts(&self, code: Code) -> AxisSet {
        let is_left = |axis: &usize| code.0 & self.bits(AxisSet::of(*axis)) == 0;
        self.combined.iter().filter(is_left).fold(AxisSet::EMPTY, |all, axis| all.or(AxisSet::of(axis)))
    }

    fn bits(&self, axes: AxisSet) -> u16 {
        let [low, high] = self.bits.halves(axes);
        low | high
    }

    /// Those of the mesh axes that have arrived at their targets.
    pub(super) fn arrived(&self, code: Code, axes: AxisSet) -> AxisSet {
        let is_there = |axis: &usize| {
            let bits = self.bits(AxisSet::of(*axis));
            code.0 & bits == self.goal.0 & bits
        };
        axes.iter().filter(is_there).fold(AxisSet::EMPTY, |all, axis| all.or(AxisSet::of(axis)))
    }

    /// The mesh axes that come to be Partial.
    pub(super) fn kept(&self) -> AxisSet {
        self.partial_at(Station::Target)
    }

    fn partial_at(&self, station: Station) -> AxisSet {
        let movers = self.movers.iter().filter(|mover| matches!(mover.slot(station), Slot::Partial(_)));
        movers.fold(AxisSet::EMPTY, |all, mover| all.or(AxisSet::of(mover.axis)))
    }

    /// What can change from here.
    pub(super) fn choices(&self, view: &View) -> Choices {
        let mut choices = Choices::default();
        for (index, mover) in self.movers.iter().enumerate() {
            let station = view.code.station(index);
            let one = AxisSet::of(mover.axis);
            let put = |set: &mut AxisSet| *set = set.or(one);
            // A further split of what is split already goes on from the last of the mesh axes that split it.
            let comes_last = |slot: Slot| match slot {
                Slot::Local { split, .. } => view.splits.get(split).after(mover.axis).is_empty(),
                _ => false,
            };
            if mover.has_detour() && station != Station::Detour {
                let last = comes_last(mover.slot(Station::Detour));
                match mover.slot(station) {
                    // Parts of the target's are not combined: they are of its operation, and are to stay.
                    Slot::Partial(_) if last && station == Station::Source => {
                        put(&mut choices.scatter_aside);
                    }
                    Slot::Whole => {
                        put(&mut choices.permute_aside);
                        if last {
                            put(&mut choices.slice_aside);
                        }
                    }
                    Slot::Local { .. } if self.is_wide() => {
                        put(&mut choices.permute_aside);
                        put(&mut choices.exchange_aside);
                    }
                    _ => {}
                }
            }
            if station == Station::Target {
                if mover.stays {
                    put(&mut choices.all_gather);
                }
                continue;
            }
            put(&mut choices.open);
            match (mover.slot(station), mover.slot(Station::Target)) {
                (Slot::Partial(_), to) => {
                    put(&mut choices.all_reduce);
                    if comes_last(to) {
                        put(&mut choices.reduce_scatter);
                    }
                }
                (Slot::Local { split, .. }, to) => {
                    put(&mut choices.all_gather);
                    match to {
                        Slot::Partial(_) => {
                            put(&mut choices.permute);
                            put(&mut choices.keep_one_copy);
                        }
                        Slot::Local { split: other, .. } => {
                            put(&mut choices.permute);
                            if other != split {
                                put(&mut choices.all_to_all);
                            }
                        }
                        _ => put(&mut choices.permute),
                    }
                }
                (Slot::Whole, Slot::Partial(_)) => put(&mut choices.keep_one_copy),
                (Slot::Whole, to @ Slot::Local { .. }) => {
                    put(&mut choices.permute);
                    if comes_last(to) {
                        put(&mut choices.local_slice);
                    }
                }
                _ => {}
            }
        }
        choices
    }

    /// The state in which `axes` have gone somewhere.
    pub(super) fn moved(&self, view: &View, axes: AxisSet, toward: Toward) -> View {
        let bits = self.bits(axes);
        let (gone, splits) = self.gone.get(toward as usize).copied().unwrap_or_default();
        let splits = view.splits.with(axes, splits);
        View { code: Code(view.code.0 & !bits | gone & bits), splits, sharded: splits.all() }
    }

    /// Whether a step that combines the parts along `axes` leaves the sum in the tree that combining all at once follows. That
    /// tree halves the positions of the group, the first half the larger: where the positions along the first mesh axes are a
    /// power of two, the trees along the others are its lower levels, and they may go first. But not for dtypes that are summed
    /// up in a wider one: the sum is rounded where a step ends, so there it takes one step.
    pub(super) fn keeps_tree(&self, code: Code, axes: AxisSet) -> bool {
        let (parts, dtype) = (self.parts(code), self.source.dtype());
        let rest = parts.minus(axes);
        let in_levels = dtype.accumulator() == dtype;
        rest.is_empty() || in_levels && rest.is_prefix_of(parts) && self.sizes.ways(rest).is_power_of_two()
    }

    /// Whether its states are those of another problem of the same source and target.
    pub(super) fn has_detours_of(&self, other: &Self) -> bool {
        self.movers
            .iter()
            .zip(&other.movers)
            .all(|(a, b)| a.place(Station::Detour) == b.place(Station::Detour))
    }

    pub(super) fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    /// Sets of axes that one permute may bring to their targets together.
    pub(super) fn permutes(&self, choices: &Choices) -> impl Iterator<Item = AxisSet> {
        let all = choices.permute;
        let parts = self.components.iter().map(move |set| set.and(all));
        let alone = all.iter().filter(|_| self.is_wide()).map(AxisSet::of);
        // In a wide problem one mesh axis comes alone anyway.
        let least = if self.is_wide() { 2 } else { 1 };
        let several = parts.filter(move |set| set.len() >= least && *set != all);
        several.chain(alone).chain(Some(all).filter(|all| all.len() >= least))
    }

    /// Whether a state is one that a mapping can have.
    pub(super) fn is_mapping(&self, view: &View) -> bool {
        if self.source_op.is_some() && self.target_op.is_some() && self.source_op != self.target_op {
            let op = |op: Option<ReduceOp>| {
                self.movers.iter().enumerate().any(|(index, mover)| {
                    matches!(mover.slot(view.code.station(index)), Slot::Partial(own) if Some(own) == op)
                })
            };
            if op(self.source_op) && op(self.target_op) {
                return false;
            }
        }
        let shared = |split: usize| view.splits.get(split).len() > 1 && self.is_custom(view, split);
        !self.any_custom || !(0..self.splits.len()).any(shared)
    }

    /// Whether any placement, before or after, is one of the open trait.
    pub(super) fn any_custom(&self) -> bool {
        self.any_custom
    }

    /// The custom placement that splits a tensor axis.
    pub(super) fn custom(&self, view: &View, split: usize) -> Option<Foreign> {
        if !self.any_custom {
            return None;
        }
        let set = view.splits.get(split);
        let moving = self.movers.iter().enumerate().find_map(|(index, mover)| {
            match mover.slot(view.code.station(index)) {
                Slot::Local { custom, .. } if set.contains(mover.axis) => custom,
                _ => None,
            }
        });
        moving
            .or_else(|| self.customs.iter().find(|(axis, _)| set.contains(*axis)).map(|(_, custom)| *custom))
    }

    fn is_custom(&self, view: &View, split: usize) -> bool {
        self.custom(view, split).is_some()
    }

    /// Bytes of an element of the tensor axes that any placement names; 0 if there are no elements.
    pub(super) fn unit(&self) -> f64 {
        let named: f64 = self.splits.iter().map(|split| split.extent as f64).product();
        if named > 0.0 { self.source.bytes() as f64 / named } else { 0.0 }
    }

    /// The most elements of one tensor axis that a device holds.
    pub(super) fn held_of(&self, view: &View, split: usize) -> usize {
        let Some(extent) = self.splits.get(split).map(|split| split.extent) else { return 1 };
        let set = view.splits.get(split);
        match self.custom(view, split) {
            None => extent.div_ceil(self.sizes.ways(set)),
            Some(custom) => custom.most,
        }
    }

    /// The most elements that a device holds, as far as any placement splits the whole.
    pub(super) fn held(&self, view: &View) -> f64 {
        (0..self.splits.len()).map(|split| self.held_of(view, split) as f64).product()
    }

    /// Whether these are the last mesh axes of each tensor axis that they split: only those can stop to.
    pub(super) fn are_last(&self, view: &View, axes: AxisSet) -> bool {
        (0..self.splits.len())
            .map(|split| view.splits.get(split))
            .all(|set| set.minus(axes).is_prefix_of(set))
    }

    /// Whether the new indices of every device lie inside what the devices along `group` held together.
    pub(super) fn within(&self, old: &View, new: &View, group: AxisSet) -> bool {
        self.first_outside(old, new, group).is_none()
    }

    /// The first tensor axis on which they do not.
    fn first_outside(&self, old: &View, new: &View, group: AxisSet) -> Option<usize> {
        (0..self.splits.len()).find(|split| !self.within_one(old, new, *split, group))
    }

    fn within_one(&self, old: &View, new: &View, split: usize, group: AxisSet) -> bool {
        let (from, to) = (old.splits.get(split), new.splits.get(split));
        let fixed = from.minus(group);
        // A custom placement that changes on its own axis is always in the group; so equal sets are equal ranges.
        if fixed.is_empty() || from == to {
            return true;
        }
        let Some(extent) = self.splits.get(split).map(|split| split.extent) else { return true };
        fixed.is_prefix_of(from)
            && fixed.is_prefix_of(to)
            && !self.is_custom(old, split)
            && nests(
                extent,
                self.sizes.ways(fixed),
                self.sizes.ways(from.minus(fixed)),
                self.sizes.ways(to.minus(fixed)),
            )
    }

    /// `group` and as few further mesh axes as make an exchange legal: trailing ones of a tensor axis whose cuts do
    /// not nest.
    pub(super) fn widened(&self, old: &View, new: &View, mut group: AxisSet) -> AxisSet {
        for split in 0..self.splits.len() {
            while !self.within_one(old, new, split, group) {
                let fixed = old.splits.get(split).minus(group);
                group = group.or(fixed.minus(fixed.without_last()));
            }
        }
        group
    }

    /// The placements of a state, on all mesh axes.
    pub(super) fn places(&self, code: Code) -> Places {
        let mut places = Places::from_slice(self.source.places());
        for (index, mover) in self.movers.iter().enumerate() {
            if let Some(slot) = places.get_mut(mover.axis) {
                *slot = mover.place(code.station(index));
            }
        }
        places
    }

    /// The kind of a step that combines parts of the source.
    pub(super) fn reducing(&self, kind: fn(ReduceOp) -> StepKind) -> Option<StepKind> {
        self.source_op.map(kind)
    }
    /// Whether no mesh axis is Partial or Unknown.
    pub(super) fn is_plain(&self, code: Code) -> bool {
        self.places(code).iter().all(|place| *place == Place::Replicated || place.tensor_axis().is_some())
    }
}

/// Custom placements are asked for the sizes of at most so many parts.
const MAX_PARTS: usize = 1 << 10;
