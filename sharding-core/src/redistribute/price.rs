//! What a step costs.

use super::axis_set::{AxisSet, Sizes};
use super::mesh_move;
use super::overlap::{common, total};
use super::state::{Foreign, Problem, View};
use crate::backend::{Step, StepKind};
use crate::placement::Ranges;
use crate::plan::{CostModel, CostUnit, StepQuery, VolumeCost};
use crate::{DeviceMesh, Error, ErrorKind, MAX_MESH_AXES, Result};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Up to so many combinations of coordinates a permutation is priced exactly, beyond by the size of the largest new
/// shard. Only custom placements reach it: their coordinates have no corners.
const MAX_COORDINATES: usize = 1 << 20;

/// Of so few coordinates on a mesh axis all are looked at where a split has a bend: most of them matter then.
const FEW_COORDINATES: usize = 4;

impl Step {
    /// What the step costs under a model, whatever model planned it; in the model's [unit](CostModel::unit).
    pub fn price(&self, cost: &dyn CostModel) -> f64 {
        let (source, target, mesh) = (&self.source, &self.target, self.source.mesh());
        let splits =
            |axis: &usize| !self.axes.contains(axis) && source.mapping().place(*axis).tensor_axis().is_some();
        let outside: usize = (0..mesh.ndim()).filter(splits).map(|axis| mesh.size(axis)).product();
        let received = match self.kind {
            StepKind::Move => mesh_move::received(source, target),
            StepKind::Permute => {
                let problem = Problem::new(source, target);
                let pricing = Pricing::new(&problem, cost);
                pricing.received(&problem, &problem.view(problem.start), &problem.view(problem.goal))
            }
            _ => 0.0,
        };
        cost.step(&StepQuery {
            kind: self.kind,
            mesh,
            axes: &self.axes,
            group: self.axes.iter().map(|axis| mesh.size(*axis)).product(),
            bytes: source.bytes() as f64 / outside as f64,
            received,
        })
    }

    /// The bytes that one device sends; of a permutation or a move the most that one receives. Local steps send none.
    pub fn bytes(&self) -> f64 {
        if self.kind.communicates() { self.price(&VolumeCost) } else { 0.0 }
    }

    /// What the step takes in seconds; `None` under a model that counts something else.
    ///
    /// ```
    /// use sharding_core::plan::{AlphaBetaCost, VolumeCost, fabric};
    /// use sharding_core::redistribute::Program;
    /// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, TensorLayout};
    /// let mesh = DeviceMesh::simulated(BackendKind::SIM, [8], ["tp"])?;
    /// let source = TensorLayout::new(DType::F32, [1 << 20], DeviceMapping::new(&mesh, [Place::PARTIAL])?)?;
    /// let target = source.with_mapping(DeviceMapping::replicated(&mesh))?;
    /// let program = Program::search(&source, &target, &VolumeCost)?;
    /// let seconds = program.steps[0].seconds(&AlphaBetaCost::new(fabric::NVLINK_4.link)?);
    /// assert!((19e-6..20e-6).contains(&seconds.unwrap()), "{seconds:?}");
    /// assert_eq!(program.steps[0].seconds(&VolumeCost), None);
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    pub fn seconds(&self, cost: &dyn CostModel) -> Option<f64> {
        (cost.unit() == CostUnit::Seconds).then(|| self.price(cost))
    }
}

/// Refuses a price that no path can be searched by.
///
/// # Errors
/// [`ErrorKind::Argument`] for one that is negative or no number. Infinite is one: such a step is never taken.
pub(super) fn checked(kind: StepKind, price: f64) -> Result<()> {
    if price >= 0.0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Argument,
        format!("the cost model in force gives {} the price {price}", kind.name()),
    )
    .with_fix("let CostModel::step give numbers that are not negative; infinity for what must not be done"))
}

/// Prices steps on meshes of one shape.
pub(super) struct Pricing<'a> {
    pub(super) cost: &'a dyn CostModel,
    bytes: f64,
    /// Bytes of an element of the tensor axes that any placement names.
    unit: f64,
}

impl<'a> Pricing<'a> {
    pub(super) fn new(problem: &Problem<'_>, cost: &'a dyn CostModel) -> Self {
        Self { cost, bytes: problem.source.bytes() as f64, unit: problem.unit() }
    }

    /// The price of a step of `kind` over `group` from a state; `received` counts for permutations and moves.
    pub(super) fn step(
        &self,
        problem: &Problem<'_>,
        mesh: &DeviceMesh,
        kind: StepKind,
        from: &View,
        group: AxisSet,
        received: f64,
    ) -> f64 {
        let mut axes = [0; MAX_MESH_AXES];
        let mut n = 0;
        for (slot, axis) in axes.iter_mut().zip(group.iter()) {
            *slot = axis;
            n += 1;
        }
        self.cost.step(&StepQuery {
            kind,
            mesh,
            axes: axes.get(..n).unwrap_or(&[]),
            group: problem.sizes.ways(group),
            bytes: self.bytes / problem.sizes.divisor(from.sharded.minus(group)),
            received,
        })
    }

    /// The most bytes that one device receives from others when a state becomes another by exchanging ranges.
    pub(super) fn received(&self, problem: &Problem<'_>, old: &View, new: &View) -> f64 {
        self.received_unless(problem, old, new, |_| false).unwrap_or(f64::INFINITY)
    }

    /// The same; `None`, and sooner, if so much is too much, as is then all that is more.
    pub(super) fn received_unless(
        &self,
        problem: &Problem<'_>,
        old: &View,
        new: &View,
        too_much: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        if self.unit == 0.0 {
            return Some(0.0);
        }
        // Tensor axes that do not change multiply what the others receive; their largest piece is independent of those.
        let mut each = self.unit;
        let mut most = Most { sizes: &problem.sizes, changes: SmallVec::new(), so_far: 0 };
        // The mesh axes that split a tensor axis up to here, a later one than before, and one that they did before.
        let (mut before, mut later, mut same) = (AxisSet::EMPTY, AxisSet::EMPTY, AxisSet::EMPTY);
        for split in 0..problem.splits.len() {
            let (from, to) = (old.splits.get(split), new.splits.get(split));
            if from == to && has_equal_ranges(problem, old, new, split) {
                each *= problem.held_of(new, split) as f64;
                continue;
            }
            most.changes.push(Change::of(problem, old, new, split));
            later = later.or(before.and(to));
            same = same.or(from.and(to));
            before = before.or(from);
        }
        let too_many = |elements| too_much(each * elements as f64);
        if !problem.any_custom() {
            // Often one device gets more than all others: it is last along those that stop to split, and along one of these.
            let left = old.sharded.minus(new.sharded);
            if !(most.try_last(left.or(later), &too_many) && most.try_last(left.or(same), &too_many)) {
                return None;
            }
        }
        most.received(&too_many).map(|received| each * received as f64)
    }
}

/// Whether equal mesh axes cut equal ranges of a tensor axis.
fn has_equal_ranges(problem: &Problem<'_>, old: &View, new: &View, split: usize) -> bool {
    match (problem.custom(old, split), problem.custom(new, split)) {
        (None, None) => true,
        (Some(a), Some(b)) => std::ptr::eq(a.interned, b.interned),
        _ => false,
    }
}

/// How one tensor axis is split before or after.
struct Side {
    axes: AxisSet,
    /// The size of the smaller parts of a balanced split, and how many are larger.
    size: usize,
    larger: usize,
    custom: Option<Foreign>,
}

impl Side {
    fn of(problem: &Problem<'_>, view: &View, split: usize, extent: usize) -> Self {
        let axes = view.splits.get(split);
        let ways = problem.sizes.ways(axes);
        Self { axes, size: extent / ways, larger: extent % ways, custom: problem.custom(view, split) }
    }

    /// A part of a balanced split, as [`crate::split::balanced`] cuts it but without a division.
    fn range(&self, part: usize) -> Range<usize> {
        let start = part * self.size + part.min(self.larger);
        start..start + self.size + usize::from(part < self.larger)
    }

    /// The part of the devices that are last along some mesh axes and first along the others.
    fn last(&self, sizes: &Sizes, last: AxisSet) -> usize {
        let digit = |axis| if last.contains(axis) { sizes.get(axis) - 1 } else { 0 };
        self.axes.iter().fold(0, |part, axis| part * sizes.get(axis) + digit(axis))
    }

    /// How much further the part is so many coordinates on along a mesh axis.
    fn turn(&self, sizes: &Sizes, axis: usize, by: usize) -> usize {
        if self.axes.contains(axis) { by.wrapping_mul(sizes.ways(self.axes.after(axis))) } else { 0 }
    }

    /// The coordinate on a mesh axis of the first part that is smaller than the first: there the sizes change.
    fn bend(&self, sizes: &Sizes, mesh_axis: usize) -> usize {
        self.larger / sizes.ways(self.axes.after(mesh_axis)) % sizes.get(mesh_axis)
    }
}

/// The numbers of the old and of the new part of a device.
type Parts = (usize, usize);

/// A tensor axis whose ranges change.
struct Change {
    extent: usize,
    from: Side,
    to: Side,
    /// The parts of the device that is looked at.
    parts: Parts,
}

impl Change {
    fn of(problem: &Problem<'_>, old: &View, new: &View, split: usize) -> Self {
        let extent = problem.splits.get(split).map_or(0, |split| split.extent);
        Self {
            extent,
            from: Side::of(problem, old, split, extent),
            to: Side::of(problem, new, split, extent),
            parts: (0, 0),
        }
    }

    /// How many indices the device has afterwards, and how many of them it had.
    fn gets_and_has(&self, sizes: &Sizes) -> (usize, usize) {
        let (old, new) = self.parts;
        if self.is_custom() {
            let ranges = |side: &Side, part| match side.custom {
                Some(custom) => custom.interned.placement().ranges(self.extent, sizes.ways(side.axes), part),
                None => smallvec![side.range(part)],
            };
            let (old, new): (Ranges, Ranges) = (ranges(&self.from, old), ranges(&self.to, new));
            return (total(&new), common(&old, &new));
        }
        let (old, new) = (self.from.range(old), self.to.range(new));
        (new.len(), old.end.min(new.end).saturating_sub(old.start.max(new.start)))
    }

    /// Whether the parts before or afterwards are of any ranges: then what they have in common is, whatever cuts the other side.
    fn is_custom(&self) -> bool {
        self.from.custom.is_some() || self.to.custom.is_some()
    }

    fn is_cut_by(&self, mesh_axis: usize) -> bool {
        self.from.axes.or(self.to.axes).contains(mesh_axis)
    }

    /// The size of the largest part afterwards.
    fn most(&self) -> usize {
        let Side { size, larger, custom, .. } = &self.to;
        custom.map_or(size + usize::from(*larger > 0), |custom| custom.most)
    }
}

/// Coordinates that are looked at.
#[derive(Default)]
struct Corners {
    /// Mesh axes, and which of `at` are theirs.
    axes: SmallVec<[(usize, Range<usize>); 4]>,
    at: SmallVec<[usize; 24]>,
}

/// The most elements of the changed tensor axes that a device gets and does not have.
///
/// Only coordinates on mesh axes that split one of them matter, and of those only a few. In the balanced split all
/// starts and ends are affine in the coordinates but for one bend, at part number `extent % ways`, so that the bends cut
/// the coordinates in boxes whose bounds are 0, the last, and the digits of that number or their neighbours. In such a
/// box the sizes of the new shards are constant and the common part of one tensor axis is concave where it is not
/// empty; the product of several is log-concave and has its least value at a corner of the box.
struct Most<'a> {
    sizes: &'a Sizes,
    changes: SmallVec<[Change; 3]>,
    so_far: usize,
}

impl Most<'_> {
    /// Counts the device that is last along some mesh axes and first along the others; false if it is too many.
    fn try_last(&mut self, last: AxisSet, too_many: &impl Fn(usize) -> bool) -> bool {
        for change in &mut self.changes {
            change.parts = (change.from.last(self.sizes, last), change.to.last(self.sizes, last));
        }
        self.count(too_many)
    }

    /// `None`, and sooner, if it is too many.
    fn received(&mut self, too_many: &impl Fn(usize) -> bool) -> Option<usize> {
        let most: usize = self.changes.iter().map(Change::most).product();
        // No device can get more than one that keeps nothing of the largest part.
        if self.so_far < most {
            let Some(corners) = self.corners() else { return Some(most) };
            self.changes.iter_mut().for_each(|change| change.parts = (0, 0));
            if !self.from(&corners, 0, too_many) {
                return None;
            }
        }
        Some(self.so_far)
    }

    /// `None` if there are too many.
    fn corners(&self) -> Option<Corners> {
        let sizes = self.sizes;
        let both = || self.changes.iter().flat_map(|change| [&change.from, &change.to]);
        let axes = both().fold(AxisSet::EMPTY, |all, side| all.or(side.axes));
        let mut corners = Corners::default();
        let mut combinations = 1_usize;
        for axis in axes.iter() {
            let size = sizes.get(axis);
            let first = corners.at.len();
            let any_order = self.changes.iter().any(|change| change.is_custom() && change.is_cut_by(axis));
            // A split without a remainder has no bend.
            let bent = || both().filter(|side| side.axes.contains(axis) && side.larger != 0);
            if size <= 2 || any_order || size <= FEW_COORDINATES && bent().next().is_some() {
                // All of them, unless that is too many.
                if size > MAX_COORDINATES {
                    return None;
                }
                corners.at.extend(0..size);
            } else {
                let mut at: SmallVec<[usize; 16]> = smallvec![0, size - 1];
                for side in bent() {
                    let bend = side.bend(sizes, axis);
                    at.extend([bend.saturating_sub(1), bend, (bend + 1).min(size - 1)]);
                }
                at.sort_unstable();
                at.dedup();
                corners.at.extend_from_slice(&at);
            }
            combinations = combinations.saturating_mul(corners.at.len() - first);
            corners.axes.push((axis, first..corners.at.len()));
        }
        (combinations <= MAX_COORDINATES).then_some(corners)
    }

    /// Goes through the coordinates on the mesh axes from number `level` on; false, and sooner, if it is too many.
    fn from(&mut self, corners: &Corners, level: usize, too_many: &impl Fn(usize) -> bool) -> bool {
        let Some((axis, span)) = corners.axes.get(level) else { return self.count(too_many) };
        let coords = corners.at.get(span.clone()).unwrap_or_default();
        let mut last = 0;
        let all = coords.iter().all(|coord| {
            self.turn(*axis, coord.wrapping_sub(last));
            last = *coord;
            self.from(corners, level + 1, too_many)
        });
        self.turn(*axis, 0_usize.wrapping_sub(last));
        all
    }

    /// Goes so many coordinates on along a mesh axis.
    fn turn(&mut self, axis: usize, by: usize) {
        for Change { from, to, parts: (old, new), .. } in &mut self.changes {
            *old = old.wrapping_add(from.turn(self.sizes, axis, by));
            *new = new.wrapping_add(to.turn(self.sizes, axis, by));
        }
    }

    /// Counts one device; false if it is too many.
    fn count(&mut self, too_many: &impl Fn(usize) -> bool) -> bool {
        let (mut gets, mut has) = (1, 1);
        for change in &self.changes {
            let (all, kept) = change.gets_and_has(self.sizes);
            gets *= all;
            has *= kept;
        }
        if gets - has <= self.so_far {
            return true;
        }
        self.so_far = gets - has;
        !too_many(self.so_far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{Interleaved, Transition};
    use crate::plan::{AlphaBetaCost, fabric};
    use crate::redistribute::Program;
    use crate::{BackendKind, DType, DeviceMapping, Place, Shape, TensorLayout};

    /// The price of the permutation, against every device counted by its index ranges.
    fn check(mesh: &DeviceMesh, shape: &[usize], from: &[Place], to: &[Place]) {
        let lay = |places: &[Place]| {
            TensorLayout::new(DType::Bool, Shape::from(shape), DeviceMapping::new(mesh, places).unwrap())
                .unwrap()
        };
        let (source, target) = (lay(from), lay(to));
        let problem = Problem::new(&source, &target);
        let pricing = Pricing::new(&problem, &VolumeCost);
        let received = pricing.received(&problem, &problem.view(problem.start), &problem.view(problem.goal));
        let one = |position| {
            let (old, new) = (source.region(position), target.region(position));
            let gets: usize = new.iter().map(|ranges| total(ranges)).product();
            gets - old.iter().zip(&new).map(|(old, new)| common(old, new)).product::<usize>()
        };
        let most = (0..mesh.num_devices()).map(one).max().unwrap();
        assert!((received - most as f64).abs() < 1e-6, "{source} to {target}: {received}, not {most}");
    }

    /// Pricing a step again gives what the search priced it at: every change of three places on two mesh axes, under both
    /// models.
    #[test]
    fn a_step_priced_again_costs_the_same() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [3, 4], ["a", "b"]).unwrap();
        let other = DeviceMesh::simulated(BackendKind::CPU, [12], ["c"]).unwrap();
        let seconds = AlphaBetaCost::new(fabric::INFINIBAND_NDR.link)
            .and_then(|cost| cost.with_axis("b", fabric::NVLINK_4.link))
            .and_then(|cost| cost.with_memory(1e12))
            .unwrap();
        let models: [&dyn CostModel; 2] = [&VolumeCost, &seconds];
        let options = [Place::Replicated, Place::Sharded(0), Place::Sharded(1), Place::PARTIAL];
        let places = |i: usize| [options[i / 4], options[i % 4]];
        let lay = |mapping| TensorLayout::new(DType::F32, [10, 26], mapping).unwrap();
        let on = |i: usize| lay(DeviceMapping::new(&mesh, places(i)).unwrap());
        let away = lay(DeviceMapping::new(&other, [Place::Sharded(0)]).unwrap());
        let mut counted = 0;
        for cost in models {
            let targets = (0..16).map(on).chain([away.clone()]);
            for (from, target) in targets.flat_map(|target| (0..16).map(move |from| (from, target.clone()))) {
                let program = Program::search(&on(from), &target, cost).unwrap();
                for step in &program.steps {
                    let again = step.price(cost);
                    assert!(
                        (again - step.cost).abs() <= 1e-9 * step.cost,
                        "{step}: {again}, not {}",
                        step.cost
                    );
                    assert_eq!(step.seconds(cost).is_some(), cost.unit() == CostUnit::Seconds);
                    let bytes = if step.kind.communicates() { step.price(&VolumeCost) } else { 0.0 };
                    assert_eq!(step.bytes(), bytes);
                    counted += 1;
                }
            }
        }
        assert!(counted > 500, "{counted}");
    }

    /// Gives one kind of step a price of its own.
    #[derive(Debug)]
    struct Wrong(StepKind, f64);

    impl CostModel for Wrong {
        fn key(&self) -> u64 {
            self.1.to_bits()
        }
        fn unit(&self) -> CostUnit {
            CostUnit::Score
        }
        fn transition(&self, transition: Transition, bytes: f64, mesh: &DeviceMesh, axis: usize) -> f64 {
            VolumeCost.transition(transition, bytes, mesh, axis)
        }
        fn step(&self, query: &StepQuery<'_>) -> f64 {
            if query.kind == self.0 { self.1 } else { VolumeCost.step(query) }
        }
    }

    #[test]
    fn a_price_that_is_none_is_refused() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["a", "b"]).unwrap();
        let other = DeviceMesh::simulated(BackendKind::CPU, [4], ["c"]).unwrap();
        let on = |mesh: &DeviceMesh, places: &[Place]| {
            TensorLayout::new(DType::F32, [6, 5], DeviceMapping::new(mesh, places).unwrap()).unwrap()
        };
        let (r, s0, s1) = (Place::Replicated, Place::Sharded(0), Place::Sharded(1));
        let changes = [
            (StepKind::AllGather, on(&mesh, &[s0, r]), on(&mesh, &[r, r])),
            (StepKind::AllToAll, on(&mesh, &[s0, s1]), on(&mesh, &[s1, s0])),
            (StepKind::Permute, on(&mesh, &[s0, r]), on(&mesh, &[r, s0])),
            (StepKind::Move, on(&mesh, &[s0, r]), on(&other, &[s0])),
        ];
        for (kind, source, target) in changes {
            for price in [f64::NAN, -1.0, f64::NEG_INFINITY] {
                let error = Program::search(&source, &target, &Wrong(kind, price)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
                assert!(error.message().contains(kind.name()) && error.fix().is_some(), "{error}");
            }
        }
        // Parts that must be combined first, in one of several ways.
        let (parts, away) = (on(&mesh, &[Place::PARTIAL, r]), on(&other, &[s0]));
        let error = Program::search(&parts, &away, &Wrong(StepKind::Move, f64::NAN)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    }

    /// Pieces of several ranges may have less in common with a piece in the middle than with the first or the last.
    #[test]
    fn ranges_of_any_order_have_no_corners() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 4], ["a", "b"]).unwrap();
        let (r, s0, s1) = (Place::Replicated, Place::Sharded(0), Place::Sharded(1));
        // Of 0, 1 | 2, 3 | 4, 5 | 6 the device with 1, 5, 6 lacks nothing but the second in whole.
        let fused = Interleaved::place(0, [2, 5]);
        for (from, to) in [([fused, r], [r, s0]), ([r, s0], [fused, r]), ([s1, s0], [fused, s1])] {
            check(&mesh, &[7, 6], &from, &to);
        }
    }

    #[test]
    fn corners_are_the_most_that_anyone_receives() {
        let options = [Place::Replicated, Place::Sharded(0), Place::Sharded(1)];
        for sizes in [[9, 7], [2, 11], [6, 8], [13, 5]] {
            let mesh = DeviceMesh::simulated(BackendKind::CPU, sizes, ["a", "b"]).unwrap();
            for rows in [0, 1, 7, 30, 59, 63, 64, 100, 127, 200] {
                for from in 0..9 {
                    for to in 0..9 {
                        let places = |i: usize| [options[i / 3], options[i % 3]];
                        check(&mesh, &[rows, 37], &places(from), &places(to));
                    }
                }
            }
        }
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [5, 2, 6], ["a", "b", "c"]).unwrap();
        for (from, to) in (0..27).flat_map(|from| (0..27).map(move |to| (from, to))) {
            let places = |i: usize| [options[i / 9], options[i / 3 % 3], options[i % 3]];
            check(&mesh, &[77, 23], &places(from), &places(to));
        }
    }
}
