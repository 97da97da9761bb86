//! Suite `max_transfer`: redistributions, with the steps that MAX takes.

use super::data::{Wholes, f32_layout};
use super::json::{Node, Parsed};
use super::report::{Report, Verdict};
use super::room;
use super::spelling::{codes, mesh, places, shape};
use sharding_core::backend::StepKind;
use sharding_core::op::Fill;
use sharding_core::plan::{CostModel, StepQuery, VolumeCost};
use sharding_core::redistribute::Program;
use sharding_core::{DeviceMesh, Place, ReduceOp, Result, TensorLayout};

pub(super) fn replay(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    for case in root.field("cases")?.list()? {
        report.case(&case.id(), || transfer(&case));
    }
    Ok(())
}

fn transfer(case: &Node<'_>) -> Parsed<Verdict> {
    let source_mesh = mesh(&case.field("mesh")?)?;
    let target_mesh = case.optional("to_mesh").map(|node| mesh(&node)).transpose()?;
    let shape = shape(&case.field("shape")?)?;
    let (from, to) = (places(&case.field("from")?)?, places(&case.field("to")?)?);
    let layouts = || -> Result<(TensorLayout, TensorLayout)> {
        let (source_mesh, shape) = (source_mesh?, shape?);
        let target_mesh = target_mesh.unwrap_or_else(|| Ok(source_mesh.clone()))?;
        Ok((f32_layout(&source_mesh, &shape, &from?)?, f32_layout(&target_mesh, &shape, &to?)?))
    };
    let layouts = layouts();
    if let Ok((source, _)) = &layouts {
        room::elements(&case.field("shape")?, source.shape())?;
    }
    let got = layouts.as_ref().map_err(ToString::to_string).and_then(|(source, target)| {
        let moved = || {
            let wholes = Wholes::new(source, Fill::Signed, 1)?;
            Ok((wholes.place(source, 2)?.transfer_to(target.mapping())?, wholes))
        };
        moved().map_err(|error: sharding_core::Error| error.to_string())
    });
    if case.has("error") {
        return Ok(Verdict::error(&got));
    }
    let (tensor, wholes) = match got {
        Ok(got) => got,
        Err(error) => {
            return Ok(Verdict::failed(
                format!("{} -> {}", case.field("from")?.value(), case.field("to")?.value()),
                error,
            ));
        }
    };
    let Ok((source, target)) = &layouts else { return Ok(Verdict::Passed) };
    let want = match places(&case.field("placements")?)? {
        Ok(want) => want,
        Err(error) => return Ok(Verdict::failed("placements", error.to_string())),
    };
    let local = case.field("local_shapes")?.list_of(|shape| shape.list_of(Node::size))?;
    let verdict = Verdict::equal("placements", codes(&want), codes(tensor.layout().places())).and(|| {
        let shapes: Vec<Vec<usize>> = tensor.shards().iter().map(|shard| shard.shape().to_vec()).collect();
        Verdict::equal("local shapes", local, shapes)
    });
    let verdict = verdict.and(|| match wholes.difference(&tensor) {
        Ok(None) => Verdict::Passed,
        Ok(Some(difference)) => Verdict::failed("the value kept", difference),
        Err(error) => Verdict::failed("the value kept", error.to_string()),
    });
    if verdict != Verdict::Passed {
        return Ok(verdict);
    }
    price(case, source, target)
}

/// Whether our program costs at most what theirs does, by one formula.
fn price(case: &Node<'_>, source: &TensorLayout, target: &TensorLayout) -> Parsed<Verdict> {
    let program = match Program::search(source, target, &VolumeCost) {
        Ok(program) => program,
        Err(error) => return Ok(Verdict::failed("a program", error.to_string())),
    };
    let mut theirs =
        Replay { mesh: source.mesh(), places: source.places().to_vec(), cost: 0.0, whole: source };
    for step in case.field("steps")?.list()? {
        theirs.step(&step, target.mesh())?;
    }
    let sum: f64 = program.steps.iter().map(|step| step.cost).sum();
    let text = || program.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Ok(if (sum - program.cost).abs() > 1e-6 {
        Verdict::failed(format!("the price {} of the steps", program.cost), sum.to_string())
    } else if program.cost <= theirs.cost * (1.0 + 1e-9) {
        Verdict::Passed
    } else {
        Verdict::failed(
            format!("a price of at most {}", theirs.cost),
            format!("{}: {}", program.cost, text()),
        )
    })
}

/// The steps of the other system, replayed on placements only.
struct Replay<'a> {
    mesh: &'a DeviceMesh,
    places: Vec<Place>,
    cost: f64,
    /// Any layout of the tensor, for its shape and dtype.
    whole: &'a TensorLayout,
}

impl<'a> Replay<'a> {
    fn step(&mut self, step: &Node<'_>, target: &'a DeviceMesh) -> Parsed<()> {
        let name = step.field("op")?;
        match name.text()? {
            "local_split" => self.collective(step, StepKind::LocalSlice, Self::sharded(step)?),
            "allgather" => self.collective(step, StepKind::AllGather, Place::Replicated),
            "allreduce" => self.collective(step, StepKind::AllReduce(ReduceOp::Sum), Place::Replicated),
            "reduce_scatter" => {
                self.collective(step, StepKind::ReduceScatter(ReduceOp::Sum), Self::sharded(step)?)
            }
            "keep_one_copy" => self.collective(step, StepKind::KeepOneCopy(ReduceOp::Sum), Place::PARTIAL),
            "relabel" => {
                self.places = read_places(&step.field("placements")?)?;
                Ok(())
            }
            "scatter" => {
                self.places = read_places(&step.field("placements")?)?;
                // All pieces come from the first device of the source.
                let from = self.mesh.device(0);
                self.mesh = target;
                self.receive(step, |_| from)
            }
            "move_shard_to_same_position" => {
                let source = self.mesh;
                self.mesh = target;
                self.receive(step, |position| source.device(position))
            }
            _ => Err(name.expected("the name of a step")),
        }
    }

    fn sharded(step: &Node<'_>) -> Parsed<Place> {
        let axis = step.field("tensor_axis")?;
        u8::try_from(axis.size()?).map(Place::Sharded).map_err(|_| axis.expected("a tensor axis"))
    }

    /// A step over the groups along some mesh axes, which then have another placement.
    fn collective(&mut self, step: &Node<'_>, kind: StepKind, to: Place) -> Parsed<()> {
        let node = step.field("mesh_axes")?;
        let axes = node.list_of(Node::size)?;
        let group = self.mesh.axis_size(&axes).map_err(|_| node.expected("mesh axes"))?;
        let outside: usize = (0..self.mesh.ndim())
            .filter(|axis| {
                !axes.contains(axis) && self.places.get(*axis).is_some_and(|p| p.tensor_axis().is_some())
            })
            .map(|axis| self.mesh.size(axis))
            .product();
        let bytes = self.whole.bytes() as f64 / outside as f64;
        self.cost +=
            VolumeCost.step(&StepQuery { kind, mesh: self.mesh, axes: &axes, group, bytes, received: 0.0 });
        for axis in axes {
            if let Some(place) = self.places.get_mut(axis) {
                *place = to;
            }
        }
        Ok(())
    }

    /// A step that brings every device its piece from the device that `from` says: the most bytes that one receives.
    fn receive(
        &mut self,
        step: &Node<'_>,
        from: impl Fn(usize) -> Option<sharding_core::Device>,
    ) -> Parsed<()> {
        let layout = f32_layout(self.mesh, self.whole.shape(), &self.places)
            .map_err(|_| step.expected("a step that fits the placements before it"))?;
        let bytes = (0..self.mesh.num_devices())
            .filter(|position| from(*position) != self.mesh.device(*position))
            .map(|position| layout.local_shape(position).elements() * layout.dtype().size());
        self.cost += bytes.max().unwrap_or(0) as f64;
        Ok(())
    }
}

fn read_places(node: &Node<'_>) -> Parsed<Vec<Place>> {
    places(node)?.map_err(|_| node.expected("placements"))
}
