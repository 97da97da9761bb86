//! Another system's way to change placements, as the yardstick of prices: reduce, gather, split, keep one copy, never
//! exchange. Where cuts do not nest its shared prefix is shortened, or its programs would not keep the value.

use sharding_core::backend::StepKind;
use sharding_core::plan::{CostModel, StepQuery, VolumeCost};
use sharding_core::split::balanced;
use sharding_core::{Place, ReduceOp, TensorLayout};

struct Reference<'a> {
    layout: &'a TensorLayout,
    now: Vec<Place>,
    price: f64,
}

impl Reference<'_> {
    fn ways(&self, axes: &[usize]) -> usize {
        self.layout.mesh().axis_size(axes).unwrap()
    }

    fn step(&mut self, kind: StepKind, axes: &[usize], to: Place) {
        if axes.is_empty() {
            return;
        }
        let outside: Vec<usize> = (0..self.now.len())
            .filter(|axis| !axes.contains(axis) && self.now[*axis].tensor_axis().is_some())
            .collect();
        self.price += VolumeCost.step(&StepQuery {
            kind,
            mesh: self.layout.mesh(),
            axes,
            group: self.ways(axes),
            bytes: self.layout.bytes() as f64 / self.ways(&outside) as f64,
            received: 0.0,
        });
        for axis in axes {
            self.now[*axis] = to;
        }
    }

    /// The mesh axes at the front that split a tensor axis alike before and after, with cuts that agree.
    fn shared(&self, extent: usize, from: &[usize], to: &[usize]) -> usize {
        let mut shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let agree = |shared: usize| {
            let outer = self.ways(&from[..shared]);
            let (a, b) = (self.ways(&from[shared..]), self.ways(&to[shared..]));
            // Between gather and split the tensor wears the shared prefix alone: all three must cut alike.
            (0..outer).all(|f| {
                let start = balanced(extent, outer, f).start;
                [a, b].iter().all(|inner| balanced(extent, outer * inner, f * inner).start == start)
            })
        };
        while !agree(shared) {
            shared -= 1;
        }
        shared
    }
}

fn splitting(layout: &TensorLayout, tensor_axis: usize) -> Vec<usize> {
    layout.mapping().split_by(tensor_axis).filter(|axis| layout.mesh().size(*axis) > 1).collect()
}

/// The price of the reference's program on one mesh, for Replicated, Sharded and Partial(sum).
pub(crate) fn price(source: &TensorLayout, target: &TensorLayout) -> f64 {
    let goal = target.places();
    let sum = ReduceOp::Sum;
    let mut reference = Reference { layout: source, now: source.places().to_vec(), price: 0.0 };
    let real: Vec<usize> = (0..goal.len()).filter(|axis| source.mesh().size(*axis) > 1).collect();
    let partial = |now: &[Place], axis: usize| now[axis].is_partial();
    let done: Vec<usize> = real
        .iter()
        .copied()
        .filter(|a| partial(&reference.now, *a) && goal[*a] == Place::Replicated)
        .collect();
    reference.step(StepKind::AllReduce(sum), &done, Place::Replicated);
    let shared: Vec<usize> = (0..source.shape().len())
        .map(|t| reference.shared(source.shape()[t], &splitting(source, t), &splitting(target, t)))
        .collect();
    for (t, shared) in shared.iter().enumerate() {
        let (from, to) = (splitting(source, t), splitting(target, t));
        let rest = &to[*shared..];
        if from.len() == *shared && rest.iter().all(|axis| partial(&reference.now, *axis)) {
            reference.step(StepKind::ReduceScatter(sum), rest, Place::Sharded(t as u8));
        }
    }
    let rest: Vec<usize> =
        real.iter().copied().filter(|a| partial(&reference.now, *a) && !goal[*a].is_partial()).collect();
    reference.step(StepKind::AllReduce(sum), &rest, Place::Replicated);
    for (t, shared) in shared.iter().enumerate() {
        let from = splitting(source, t);
        reference.step(StepKind::AllGather, &from[*shared..], Place::Replicated);
    }
    for t in 0..shared.len() {
        let missing: Vec<usize> = splitting(target, t)
            .into_iter()
            .filter(|axis| reference.now[*axis].tensor_axis() != Some(t))
            .collect();
        reference.step(StepKind::LocalSlice, &missing, Place::Sharded(t as u8));
    }
    let kept: Vec<usize> = real
        .iter()
        .copied()
        .filter(|a| goal[*a].is_partial() && reference.now[*a] == Place::Replicated)
        .collect();
    reference.step(StepKind::KeepOneCopy(sum), &kept, Place::PARTIAL);
    reference.price
}
