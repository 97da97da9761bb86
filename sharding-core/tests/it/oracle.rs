//! All programs there are, by brute force: every state of one mesh, every step between two of them, legal by the index ranges
//! of each device and priced by the volume model. Against it the search, which looks at few states, is tested.

use sharding_core::backend::StepKind;
use sharding_core::plan::{CostModel, StepQuery, VolumeCost};
use sharding_core::{DeviceMapping, DeviceMesh, Place, ReduceOp, TensorLayout};
use std::ops::Range;

pub(crate) struct Oracle {
    layouts: Vec<TensorLayout>,
    /// Of each layout the most elements that a device holds.
    held: Vec<usize>,
    /// Of each layout the steps that lead from it: to which, and for how much.
    steps: Vec<Vec<(usize, f64)>>,
}

/// A layout, and the indices of each tensor axis that each device holds.
struct State<'a> {
    layout: &'a TensorLayout,
    ranges: Vec<Vec<Range<usize>>>,
}

impl<'a> State<'a> {
    fn of(layout: &'a TensorLayout) -> Self {
        let one = |position| {
            let region = layout.region(position).into_iter();
            region.map(|ranges| ranges.first().cloned().unwrap_or(0..0)).collect()
        };
        Self { layout, ranges: (0..layout.mesh().num_devices()).map(one).collect() }
    }

    fn place(&self, axis: usize) -> Place {
        self.layout.places()[axis]
    }

    fn splits(&self, axis: usize) -> bool {
        self.place(axis).tensor_axis().is_some()
    }

    /// Whether what each device holds lies inside what its group along `axes` holds together in `old`.
    fn within(&self, old: &Self, axes: &[usize]) -> bool {
        let held = |position: usize| {
            let group = old.layout.mesh().group(position, axes);
            self.ranges[position].iter().enumerate().all(|(t, range)| {
                range.clone().all(|index| group.iter().any(|member| old.ranges[*member][t].contains(&index)))
            })
        };
        (0..self.ranges.len()).all(held)
    }

    /// The most elements that a device holds and did not hold before.
    fn received(&self, old: &Self) -> usize {
        let one = |(new, old): (&Vec<Range<usize>>, &Vec<Range<usize>>)| {
            let common = |(a, b): (&Range<usize>, &Range<usize>)| {
                a.end.min(b.end).saturating_sub(a.start.max(b.start))
            };
            let gets: usize = new.iter().map(|range| range.len()).product();
            gets - new.iter().zip(old).map(common).product::<usize>()
        };
        self.ranges.iter().zip(&old.ranges).map(one).max().unwrap()
    }
}

/// A pair of states, and the mesh axes on which they differ.
struct Change<'a> {
    from: &'a State<'a>,
    to: &'a State<'a>,
    axes: Vec<usize>,
}

impl Change<'_> {
    fn all(&self, fits: impl Fn(Place, Place) -> bool) -> bool {
        self.axes.iter().all(|axis| fits(self.from.place(*axis), self.to.place(*axis)))
    }

    /// Whether the axes that come or go are, on each tensor axis, the last that split it: others need an exchange.
    fn is_at_the_end(&self) -> bool {
        let later = |axis: usize, t: u8| {
            (axis + 1..self.from.layout.places().len())
                .any(|other| !self.axes.contains(&other) && self.from.place(other) == Place::Sharded(t))
        };
        self.axes.iter().all(|axis| {
            [self.from, self.to].iter().all(|state| match state.place(*axis) {
                Place::Sharded(t) => !later(*axis, t),
                _ => true,
            })
        })
    }

    fn price(&self, kind: StepKind, axes: &[usize]) -> f64 {
        let (layout, mesh) = (self.from.layout, self.from.layout.mesh());
        let outside = (0..mesh.ndim()).filter(|axis| !axes.contains(axis) && self.from.splits(*axis));
        VolumeCost.step(&StepQuery {
            kind,
            mesh,
            axes,
            group: axes.iter().map(|axis| mesh.size(*axis)).product(),
            bytes: layout.bytes() as f64 / outside.map(|axis| mesh.size(axis)).product::<usize>() as f64,
            received: (self.to.received(self.from) * layout.dtype().size()) as f64,
        })
    }

    /// The prices of an exchange over these axes and any more that split.
    fn exchanges(&self) -> Vec<f64> {
        let further: Vec<usize> = (0..self.from.layout.places().len())
            .filter(|axis| !self.axes.contains(axis) && self.from.splits(*axis))
            .collect();
        let group = |picked: usize| {
            let more = further.iter().enumerate().filter(|(bit, _)| picked >> bit & 1 == 1);
            let mut axes: Vec<usize> = self.axes.iter().chain(more.map(|(_, axis)| axis)).copied().collect();
            axes.sort_unstable();
            axes
        };
        let groups = (0..1 << further.len()).map(group).filter(|axes| self.to.within(self.from, axes));
        groups.map(|axes| self.price(StepKind::AllToAll, &axes)).collect()
    }

    /// The prices of all steps that do it.
    fn prices(&self) -> Vec<f64> {
        let sum = ReduceOp::Sum;
        let (parts, whole) = (|place: Place| place.is_partial(), |place: Place| place == Place::Replicated);
        let split = |place: Place| place.tensor_axis().is_some();
        let inside = self.to.within(self.from, &[]);
        let end = self.is_at_the_end();
        let mut kinds = Vec::new();
        if end && self.all(|a, b| split(a) && whole(b)) && self.to.within(self.from, &self.axes) {
            kinds.push(StepKind::AllGather);
        }
        if end && inside && self.all(|a, b| whole(a) && split(b)) {
            kinds.push(StepKind::LocalSlice);
        }
        if self.all(|a, b| parts(a) && whole(b)) {
            kinds.push(StepKind::AllReduce(sum));
        }
        if end && inside && self.all(|a, b| parts(a) && split(b)) {
            kinds.push(StepKind::ReduceScatter(sum));
        }
        if end && self.all(|a, b| !parts(a) && parts(b)) && self.from.within(self.to, &[]) {
            kinds.push(StepKind::KeepOneCopy(sum));
        }
        // An exchange by which nothing comes is a slice.
        if !inside && self.all(|a, b| !parts(a) && !parts(b)) {
            kinds.push(StepKind::Permute);
        }
        let mut prices: Vec<f64> = kinds.into_iter().map(|kind| self.price(kind, &self.axes)).collect();
        if self.all(|a, b| split(a) && split(b)) {
            prices.extend(self.exchanges());
        }
        prices
    }
}

impl Oracle {
    /// Of tensors of one shape on one mesh, at every combination of some placements.
    pub(crate) fn new(like: &TensorLayout, options: &[Place]) -> Self {
        let mesh: &DeviceMesh = like.mesh();
        let layouts: Vec<TensorLayout> = crate::memory::places(mesh.ndim(), options)
            .iter()
            .map(|places| like.with_mapping(DeviceMapping::new(mesh, places).unwrap()).unwrap())
            .collect();
        let states: Vec<State<'_>> = layouts.iter().map(State::of).collect();
        let elements = |ranges: &Vec<Range<usize>>| ranges.iter().map(|range| range.len()).product();
        let held = states.iter().map(|state| state.ranges.iter().map(elements).max().unwrap()).collect();
        let steps_from = |from: &State<'_>| {
            let cheapest = |(i, to): (usize, &State<'_>)| {
                let axes = (0..mesh.ndim()).filter(|axis| from.place(*axis) != to.place(*axis)).collect();
                let prices = Change { from, to, axes }.prices();
                prices.into_iter().min_by(f64::total_cmp).map(|price| (i, price))
            };
            states.iter().enumerate().filter_map(cheapest).collect()
        };
        let steps = states.iter().map(steps_from).collect();
        Self { held, steps, layouts }
    }

    /// The price of the cheapest program on which no device holds more than `limit` elements.
    fn cheapest(&self, from: usize, to: usize, limit: usize) -> f64 {
        let mut costs = vec![f64::INFINITY; self.layouts.len()];
        let mut open: Vec<usize> = (0..costs.len()).filter(|state| self.held[*state] <= limit).collect();
        costs[from] = 0.0;
        while let Some(i) = (0..open.len()).min_by(|a, b| costs[open[*a]].total_cmp(&costs[open[*b]])) {
            let at = open.swap_remove(i);
            for (next, price) in self.steps[at].iter().filter(|(next, _)| self.held[*next] <= limit) {
                costs[*next] = costs[*next].min(costs[at] + price);
            }
        }
        costs[to]
    }

    /// The least that devices must be allowed to hold for a program of at most this price, over what they hold before or
    /// after.
    pub(crate) fn least_excess(&self, from: &TensorLayout, to: &TensorLayout, price: f64) -> f64 {
        let [from, to] = [from, to].map(|layout| self.layouts.iter().position(|own| own == layout).unwrap());
        let ends = self.held[from].max(self.held[to]);
        let limits = self.held.iter().copied().filter(|held| *held >= ends);
        let enough = limits.filter(|limit| self.cheapest(from, to, *limit) <= price * (1.0 + 1e-9));
        enough.min().unwrap() as f64 / ends as f64
    }
}
