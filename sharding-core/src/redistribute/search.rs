//! The cheapest path from one state to another: A* over the states of [`super::state`], by what [`super::floor`] knows.
//!
//! For meshes of one shape but of other devices there are two layers of states, one per mesh, and moves between them.

use super::axis_set::AxisSet;
use super::floor::{Floor, Weight};
use super::mesh_move;
use super::price::{Pricing, checked};
use super::reference;
use super::state::{Choices, Code, Problem, Toward, View};
use crate::backend::StepKind;
use crate::plan::{CostModel, StepQuery, VolumeCost};
use crate::{DeviceMapping, DeviceMesh, Error, Places, Result, TensorLayout};
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A step of a path, without its layouts.
pub(super) struct Hop {
    pub(super) kind: StepKind,
    pub(super) group: AxisSet,
    pub(super) cost: f64,
    /// The placements after it, and whether they are on the target's mesh.
    pub(super) places: Places,
    pub(super) arrived: bool,
}

pub(super) type Path = SmallVec<[Hop; 4]>;

/// At most so many choices of detours are tried where the ways without are too dear or there is none: as many as there are tensor
/// axes. One less where there is a yardstick, which is a way itself, for most mesh axes split one of them anyway.
const DETOURS: usize = 3;

/// The cheapest path on which no device holds more than before or after; `None` if there is none. Among equal prices the
/// one of fewest steps.
///
/// Where all such paths are dearer than [`reference::price`], one that is not and may also take the way over other tensor axes:
/// by the first choice of them that has any the cheapest. Without any, sums may follow another tree; last, devices may hold as
/// much more as they must.
pub(super) fn cheapest(
    source: &TensorLayout,
    target: &TensorLayout,
    cost: &dyn CostModel,
) -> Result<Option<Path>> {
    let problem = Problem::new(source, target);
    if source.mesh() == target.mesh() {
        if problem.start == problem.goal {
            return Ok(Some(Path::new()));
        }
        if let Some(hop) = at_once(&problem, cost) {
            return Ok(Some(Path::from_iter([hop])));
        }
    }
    // The yardstick moves nothing to another mesh.
    let measured = cost.key() == VolumeCost.key() && source.mesh() == target.mesh();
    let pricing = Pricing::new(&problem, cost);
    let most = if measured { reference::price(&problem, &pricing) } else { None };
    let most = most.map_or(f64::INFINITY, |most| most * (1.0 + 1e-9));
    match Search::new(&problem, cost, problem.limit, most).path()? {
        Some(path) => Ok(Some(path)),
        None => least(source, target, cost, most),
    }
}

/// A path over further states that costs no more than `most`, else one on which sums follow another tree, else of those that
/// cost no more one that holds least; of each choice of detours the cheapest.
fn least(
    source: &TensorLayout,
    target: &TensorLayout,
    cost: &dyn CostModel,
    most: f64,
) -> Result<Option<Path>> {
    let problems: [OnceCell<Problem<'_>>; DETOURS] = Default::default();
    let mut searches: SmallVec<[Search<'_>; DETOURS]> = SmallVec::new();
    let fewer = usize::from(most.is_finite());
    let choices = source.shape().len().saturating_sub(fewer).clamp(1, DETOURS);
    for (nth, problem) in problems.iter().enumerate().take(choices) {
        let problem = problem.get_or_init(|| Problem::wide(source, target, nth));
        if searches.iter().any(|known| known.problem.has_detours_of(problem)) {
            continue;
        }
        let mut search = Search::new(problem, cost, problem.limit, most);
        if let Some(path) = search.path()? {
            return Ok(Some(path));
        }
        searches.push(search);
    }
    // Each goes on from where it was stopped.
    loop {
        if searches.iter().any(Search::is_ordered) {
            searches.iter_mut().for_each(Search::forget_order);
        } else if let Some(limit) = searches.iter().filter_map(Search::next_limit).min_by(f64::total_cmp) {
            searches.iter_mut().for_each(|search| search.raise(limit));
        } else {
            break;
        }
        for search in &mut searches {
            if let Some(path) = search.path()? {
                return Ok(Some(path));
            }
        }
    }
    Search::new(&Problem::new(source, target), cost, f64::INFINITY, f64::INFINITY).path()
}

/// The one step that does it all, where no other path can be cheaper: all axes change by one kind of collective, and
/// the groups along just these axes can do it. For one mesh axis that is so under any model in which a collective costs
/// no more than two; for several it is proven for the volume model and even cuts only (there one group never costs more than
/// groups one after the other; of uneven cuts an exchange may move less, since it counts whole indices).
fn at_once(problem: &Problem<'_>, cost: &dyn CostModel) -> Option<Hop> {
    let view = problem.view(problem.start);
    let choices = problem.choices(&view);
    let all = choices.open;
    let ways = problem.source.mesh().num_devices();
    let is_even = || problem.source.shape().iter().all(|extent| extent % ways == 0);
    if all.len() > 1 && (cost.key() != VolumeCost.key() || !is_even()) {
        return None;
    }
    let next = problem.moved(&view, all, Toward::Target);
    let none = AxisSet::EMPTY;
    let whole = problem.moved(&view, all, Toward::Whole).code == problem.goal;
    let (kind, legal) = if whole && all.is_within(choices.all_gather) {
        (StepKind::AllGather, problem.within(&view, &next, all))
    } else if all == choices.all_to_all {
        (StepKind::AllToAll, problem.within(&view, &next, all))
    } else if whole && all == choices.all_reduce {
        (problem.reducing(StepKind::AllReduce)?, true)
    } else if all == choices.reduce_scatter {
        (problem.reducing(StepKind::ReduceScatter)?, problem.within(&view, &next, none))
    } else if all == choices.local_slice {
        (StepKind::LocalSlice, problem.within(&view, &next, none))
    } else if all == choices.keep_one_copy {
        (StepKind::KeepOneCopy(problem.target_op?), problem.within(&next, &view, none))
    } else {
        return None;
    };
    if !legal || next.code != problem.goal || !problem.is_mapping(&next) {
        return None;
    }
    let pricing = Pricing::new(problem, cost);
    let price = pricing.step(problem, problem.source.mesh(), kind, &view, all, 0.0);
    // What is no price the search refuses, and what must not be done it goes around.
    if !(price.is_finite() && price >= 0.0) {
        return None;
    }
    Some(Hop { kind, group: all, cost: price, places: problem.places(next.code), arrived: false })
}

/// A price that no difference of prices that matters is below, in the model's unit: a millionth of a millionth of what
/// gathering the whole over the whole mesh costs.
fn tie(problem: &Problem<'_>, cost: &dyn CostModel, bytes: f64) -> f64 {
    let mesh = problem.source.mesh();
    let axes: SmallVec<[usize; 4]> = (0..mesh.ndim()).collect();
    let all = cost.step(&StepQuery {
        kind: StepKind::AllGather,
        mesh,
        axes: &axes,
        group: mesh.num_devices(),
        bytes: bytes.max(1.0),
        received: 0.0,
    });
    // A model that is wrong about this is found out by the prices of the steps.
    if all.is_finite() && all > 0.0 { all * 1e-12 } else { f64::MIN_POSITIVE }
}

#[derive(Clone, Copy)]
struct Node {
    /// Price so far, and a little for every step.
    key: f64,
    cost: f64,
    from: u32,
    kind: StepKind,
    group: AxisSet,
    done: bool,
    /// The most elements that a device holds; and what is still to be paid at least, infinite in a state that no mapping can
    /// have. No numbers until a step led there.
    held: f64,
    floor: f64,
}

/// A step that was forbidden when it was found.
#[derive(Clone, Copy)]
struct Forbidden {
    from: u32,
    to: u32,
    kind: StepKind,
    /// The mesh axes that change.
    axes: AxisSet,
}

/// A state that steps are taken from.
struct Here {
    at: u32,
    view: View,
    key: f64,
    /// The key that a free step leads to.
    least: f64,
}

struct Search<'a> {
    problem: &'a Problem<'a>,
    pricing: Pricing<'a>,
    /// What is known of the rest of a way; nothing under models but the volume model and to other meshes.
    floor: Option<Floor<'a>>,
    /// The most elements that a device may hold on the way.
    limit: f64,
    /// The number of states on one mesh: a power of two.
    layer: u32,
    other_mesh: bool,
    goal: u32,
    /// The greatest key that is looked for: that of the goal once it is reached.
    most: f64,
    nodes: Vec<Node>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Steps to states in which a device holds more, and how much.
    above: Vec<(f64, Forbidden)>,
    /// Whether parts have to be combined in the tree of all at once, and the steps that would not.
    ordered: bool,
    disordered: Vec<Forbidden>,
    /// What is wrong with a price of the model.
    wrong: Option<Error>,
    /// Added per step, so that of equal prices the shorter path wins whatever the rounding.
    step_key: f64,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem<'a>, cost: &'a dyn CostModel, limit: f64, most: f64) -> Self {
        let other_mesh = problem.source.mesh() != problem.target.mesh();
        let layer = 1_u32 << (2 * problem.movers.len());
        let unknown = Node {
            key: f64::INFINITY,
            cost: f64::INFINITY,
            from: u32::MAX,
            kind: StepKind::Relabel,
            group: AxisSet::EMPTY,
            done: false,
            held: f64::NAN,
            floor: f64::NAN,
        };
        let bytes = problem.source.bytes() as f64;
        let known = cost.key() == VolumeCost.key() && !other_mesh;
        let step_key = tie(problem, cost, bytes);
        let mut search = Self {
            problem,
            pricing: Pricing::new(problem, cost),
            floor: if known { Floor::new(problem, bytes) } else { None },
            limit,
            layer,
            other_mesh,
            goal: u32::from(problem.goal.0) + if other_mesh { layer } else { 0 },
            // Paths have few steps.
            most: most + 64.0 * step_key,
            nodes: vec![unknown; layer as usize * (1 + usize::from(other_mesh))],
            heap: BinaryHeap::with_capacity(64),
            above: Vec::new(),
            ordered: problem.ordered,
            disordered: Vec::new(),
            wrong: None,
            step_key,
        };
        let start = u32::from(problem.start.0);
        if let Some(node) = search.nodes.get_mut(start as usize) {
            (node.key, node.cost, node.held, node.floor) = (0.0, 0.0, 0.0, 0.0);
        }
        search.heap.push(Reverse((0, start)));
        search
    }

    /// The cheapest path within the limit, if it costs no more than what is looked for.
    fn path(&mut self) -> Result<Option<Path>> {
        self.run()?;
        Ok(self.found())
    }

    /// The least limit within which there are states that could be of use and are not within this one.
    fn next_limit(&self) -> Option<f64> {
        self.above.iter().map(|(held, _)| *held).min_by(f64::total_cmp)
    }

    /// Lets devices hold more; the search goes on by the steps that were forbidden.
    fn raise(&mut self, limit: f64) {
        self.limit = limit;
        let (above, allowed): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.above).into_iter().partition(|(held, _)| *held > limit);
        self.above = above;
        self.resume(allowed.into_iter().map(|(_, step)| step));
    }

    /// Whether sums have to follow one tree.
    fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Lets sums follow any tree; the search goes on by the steps that were forbidden.
    fn forget_order(&mut self) {
        self.ordered = false;
        let steps = std::mem::take(&mut self.disordered);
        self.resume(steps.into_iter());
    }

    fn resume(&mut self, steps: impl Iterator<Item = Forbidden>) {
        for Forbidden { from, to, kind, axes } in steps {
            let (here, next) = (self.here(from), self.view(to));
            let spare = self.spare(&here, to, &next);
            if spare > 0.0 {
                self.consider(&here, to, &next, kind, axes, spare);
            }
        }
    }

    /// The state of a number, on either mesh.
    fn code(&self, at: u32) -> Code {
        Code((at & (self.layer - 1)) as u16)
    }

    fn view(&self, at: u32) -> View {
        self.problem.view(self.code(at))
    }

    fn here(&self, at: u32) -> Here {
        let key = self.key(at);
        Here { at, view: self.view(at), key, least: key + self.step_key }
    }

    fn mesh(&self, arrived: bool) -> &'a DeviceMesh {
        if arrived { self.problem.target.mesh() } else { self.problem.source.mesh() }
    }

    fn run(&mut self) -> Result<()> {
        loop {
            if let Some(wrong) = self.wrong.take() {
                return Err(wrong);
            }
            let Some(Reverse((_, at))) = self.heap.pop() else { return Ok(()) };
            let Some(node) = self.nodes.get_mut(at as usize) else { continue };
            if std::mem::replace(&mut node.done, true) {
                continue;
            }
            if at == self.goal {
                return Ok(());
            }
            self.expand(at);
        }
    }

    fn expand(&mut self, at: u32) {
        let problem = self.problem;
        let here = &self.here(at);
        let view = &here.view;
        let choices = problem.choices(view);
        self.exchanges(here, &choices);
        let (to, whole, aside) = (Toward::Target, Toward::Whole, Toward::Detour);
        let any = |_| true;
        let last = |axes| problem.are_last(view, axes);
        if let Some(kind) = problem.reducing(StepKind::ReduceScatter) {
            self.steps(here, kind, choices.reduce_scatter, to, any);
        }
        self.steps(here, StepKind::LocalSlice, choices.slice_aside, aside, any);
        self.scatters(here, &choices);
        if let Some(kind) = problem.reducing(StepKind::AllReduce) {
            self.steps(here, kind, choices.all_reduce, whole, any);
        }
        self.steps(here, StepKind::LocalSlice, choices.local_slice, to, any);
        let (spare, piece) = (self.most - here.least, self.piece(view));
        let joined = |axes| spare > piece * (problem.sizes.divisor(axes) - 1.0) && last(axes);
        self.steps(here, StepKind::AllGather, choices.all_gather, whole, joined);
        // A copy that all hold is given up last; a split may make way before.
        let at_end = problem.is_wide() || choices.keep_one_copy == choices.open;
        let kept = if at_end { choices.keep_one_copy } else { choices.keep_one_copy.and(view.sharded) };
        if let Some(op) = problem.target_op {
            self.steps(here, StepKind::KeepOneCopy(op), kept, to, last);
        }
        // What each receives is counted, which takes long; so last, where it is known what others cost.
        for axes in problem.permutes(&choices) {
            self.permute(here, &choices, axes, Toward::Ranges);
        }
        for axis in choices.permute_aside.iter().filter(|_| problem.is_wide()) {
            self.permute(here, &choices, AxisSet::of(axis), Toward::Detour);
        }
        if self.other_mesh && at < self.layer {
            self.cross(here);
        }
    }

    /// The steps of one kind that take some of `axes` somewhere, of those that `could` be legal.
    fn steps(
        &mut self,
        here: &Here,
        kind: StepKind,
        axes: AxisSet,
        toward: Toward,
        could: impl Fn(AxisSet) -> bool,
    ) {
        for axes in axes.subsets().filter(|axes| could(*axes)) {
            let next = self.problem.moved(&here.view, axes, toward);
            self.step(here, &next, kind, axes);
        }
    }

    /// A step to a state on the same mesh.
    fn step(&mut self, here: &Here, next: &View, kind: StepKind, axes: AxisSet) {
        let to = self.beside(here, next.code);
        let spare = self.spare(here, to, next);
        if spare > 0.0 {
            self.consider(here, to, next, kind, axes, spare);
        }
    }

    /// What a device holds, where the volume model is in force.
    fn piece(&self, view: &View) -> f64 {
        self.floor.as_ref().map_or(0.0, |floor| floor.piece(view.sharded))
    }

    /// All-to-all to targets, to detours, and to both at once.
    fn exchanges(&mut self, here: &Here, choices: &Choices) {
        let (problem, view) = (self.problem, &here.view);
        let (spare, piece) = (self.most - here.least, self.piece(view));
        if self.floor.as_ref().is_some_and(|floor| floor.with_all_to_all(view) >= spare) {
            return;
        }
        for aside in choices.exchange_aside.subsets().chain([AxisSet::EMPTY]) {
            let others = choices.all_to_all.minus(aside);
            let begun = problem.moved(view, aside, Toward::Detour);
            for axes in others.subsets().chain([AxisSet::EMPTY]) {
                let changed = aside.or(axes);
                // A device keeps its part of what it holds.
                let least = piece * (1.0 - 1.0 / problem.sizes.divisor(changed));
                if changed.is_empty() || least >= spare {
                    continue;
                }
                let next = problem.moved(&begun, axes, Toward::Target);
                let to = self.beside(here, next.code);
                let spare = self.spare(here, to, &next);
                if least < spare {
                    self.consider(here, to, &next, StepKind::AllToAll, changed, spare);
                }
            }
        }
    }

    /// Reduce-scatter to detours, alone and together with some to targets.
    fn scatters(&mut self, here: &Here, choices: &Choices) {
        let (problem, view) = (self.problem, &here.view);
        let Some(kind) = problem.reducing(StepKind::ReduceScatter) else { return };
        for aside in choices.scatter_aside.subsets() {
            let others = choices.reduce_scatter.minus(aside);
            let begun = problem.moved(view, aside, Toward::Detour);
            for direct in others.subsets().chain([AxisSet::EMPTY]) {
                let next = problem.moved(&begun, direct, Toward::Target);
                self.step(here, &next, kind, aside.or(direct));
            }
        }
    }

    /// An exchange of ranges that brings `axes` to their targets or detours, unless a collective does just that.
    fn permute(&mut self, here: &Here, choices: &Choices, axes: AxisSet, toward: Toward) {
        let (problem, view) = (self.problem, &here.view);
        let next = problem.moved(view, axes, toward);
        let to = self.beside(here, next.code);
        let spare = self.spare(here, to, &next);
        if spare <= 0.0 {
            return;
        }
        let joined = next.sharded.and(axes).is_empty() && axes.is_within(choices.all_gather);
        let by_collective = (joined || axes.is_within(choices.all_to_all))
            && problem.within(view, &next, axes)
            || axes.is_within(choices.local_slice.or(choices.slice_aside))
                && problem.within(view, &next, AxisSet::EMPTY);
        if !by_collective {
            self.consider(here, to, &next, StepKind::Permute, axes, spare);
        }
    }

    /// Moves to the other mesh: shard to shard, or straight to the target's ranges.
    fn cross(&mut self, here: &Here) {
        let (problem, code) = (self.problem, here.view.code);
        let axes =
            (0..problem.source.mesh().ndim()).fold(AxisSet::EMPTY, |all, axis| all.or(AxisSet::of(axis)));
        let straight = code != problem.goal && problem.is_plain(code) && problem.is_plain(problem.goal);
        for code in [Some(code), Some(problem.goal).filter(|_| straight)].into_iter().flatten() {
            let (to, next) = (self.layer + u32::from(code.0), problem.view(code));
            let spare = self.spare(here, to, &next);
            if spare > 0.0 {
                self.consider(here, to, &next, StepKind::Move, axes, spare);
            }
        }
    }

    /// The most bytes that one device receives by a move to the other mesh.
    fn received_by_move(&self, old: Code, new: Code) -> Result<f64> {
        let Problem { source, target, .. } = self.problem;
        let memory = source.mapping().memory_kind();
        let on = |mesh: &DeviceMesh, code: Code| -> Result<TensorLayout> {
            source.with_mapping(DeviceMapping::new(mesh, self.problem.places(code))?.with_memory_kind(memory))
        };
        Ok(mesh_move::received(&on(source.mesh(), old)?, &on(target.mesh(), new)?))
    }

    fn key(&self, index: u32) -> f64 {
        self.nodes.get(index as usize).map_or(f64::INFINITY, |node| node.key)
    }

    /// The price at which a step would not be worth it; not positive where none is.
    fn spare(&mut self, here: &Here, to: u32, next: &View) -> f64 {
        let Some(node) = self.nodes.get_mut(to as usize) else { return 0.0 };
        if node.held.is_nan() {
            let problem = self.problem;
            let weight = match &self.floor {
                Some(floor) => floor.weigh(next),
                None => Weight { held: problem.held(next), floor: 0.0 },
            };
            node.held = weight.held;
            node.floor = if problem.is_mapping(next) { weight.floor } else { f64::INFINITY };
        }
        // Not even where nothing is too dear: infinity less infinity is no number.
        if node.floor == f64::INFINITY {
            return 0.0;
        }
        (self.most - node.floor).min(node.key) - here.least
    }

    /// The number of a state on the mesh that another lies on.
    fn beside(&self, here: &Here, next: Code) -> u32 {
        here.at & !(self.layer - 1) | u32::from(next.0)
    }

    fn price(&self, here: &Here, kind: StepKind, group: AxisSet, received: f64) -> f64 {
        self.pricing.step(self.problem, self.mesh(here.at >= self.layer), kind, &here.view, group, received)
    }

    /// Takes a step if it is legal and costs less than `spare`, which is looked at first where it takes less; or keeps it for
    /// when it is no longer forbidden.
    fn consider(&mut self, here: &Here, to: u32, next: &View, kind: StepKind, axes: AxisSet, spare: f64) {
        let (problem, view) = (self.problem, &here.view);
        let step = Forbidden { from: here.at, to, kind, axes };
        let held = self.nodes.get(to as usize).map_or(0.0, |node| node.held);
        if held > self.limit {
            self.above.push((held, step));
            return;
        }
        let none = AxisSet::EMPTY;
        let is_worth = |price: f64| price < spare || price.is_nan();
        let (group, price) = match kind {
            StepKind::Permute => {
                // The volume model's price is what is received; others' is no less than that of the changing mesh axes alone.
                let is_volume = self.floor.is_some();
                let too_much = |received| {
                    !is_worth(if is_volume { received } else { self.price(here, kind, axes, received) })
                };
                let Some(received) = self.pricing.received_unless(problem, view, next, too_much) else {
                    return;
                };
                let group = problem.widened(view, next, axes);
                (group, self.price(here, kind, group, received))
            }
            StepKind::AllToAll => {
                let group = problem.widened(view, next, axes);
                (group, self.price(here, kind, group, 0.0))
            }
            StepKind::Move => match self.received_by_move(view.code, next.code) {
                Ok(received) => (axes, self.price(here, kind, axes, received)),
                Err(error) => {
                    self.wrong.get_or_insert(error);
                    return;
                }
            },
            _ => {
                let price = self.price(here, kind, axes, 0.0);
                let legal = || match kind {
                    StepKind::AllReduce(_) => true,
                    StepKind::AllGather => problem.within(view, next, axes),
                    StepKind::KeepOneCopy(_) => problem.within(next, view, none),
                    _ => problem.within(view, next, none),
                };
                if !is_worth(price) || !legal() {
                    return;
                }
                (axes, price)
            }
        };
        let combines = matches!(kind, StepKind::ReduceScatter(_) | StepKind::AllReduce(_));
        if combines && self.ordered && !problem.keeps_tree(view.code, axes) {
            self.disordered.push(step);
            return;
        }
        if let Err(error) = checked(kind, price) {
            self.wrong.get_or_insert(error);
            return;
        }
        let key = here.key + price + self.step_key;
        let Some(node) = self.nodes.get_mut(to as usize) else { return };
        let least = key + node.floor;
        if least < self.most && key < node.key && key.is_finite() {
            *node = Node { key, cost: price, from: here.at, kind, group, done: false, ..*node };
            if to == self.goal {
                self.most = key;
            }
            // Keys are not negative: their bits are ordered as they are.
            self.heap.push(Reverse((least.to_bits(), to)));
        }
    }

    fn found(&self) -> Option<Path> {
        let mut at = self.goal;
        let start = u32::from(self.problem.start.0);
        let mut path = Path::new();
        while at != start {
            let node = self.nodes.get(at as usize)?;
            if node.from == u32::MAX {
                return None;
            }
            path.push(Hop {
                kind: node.kind,
                group: node.group,
                cost: node.cost,
                places: self.problem.places(self.code(at)),
                arrived: at >= self.layer,
            });
            at = node.from;
        }
        path.reverse();
        Some(path)
    }
}
