//! Programs: the steps of a redistribution.

use super::price::checked;
use super::search::{Path, cheapest};
use super::{mesh_move, search};
use crate::backend::{Step, StepKind};
use crate::plan::{CostModel, StepQuery, VolumeCost};
use crate::{DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Places, Result, TensorLayout};
use smallvec::SmallVec;

/// The steps that take a tensor from one layout to another, and their price.
#[derive(Clone, Debug)]
pub struct Program {
    /// The layout before.
    pub source: TensorLayout,
    /// The layout after.
    pub target: TensorLayout,
    /// The steps, each from the layout that the one before leaves.
    pub steps: Vec<Step>,
    /// The sum of the steps' prices.
    pub cost: f64,
}

impl Program {
    /// The cheapest program under a cost model: device to mesh and back, mesh to mesh, and any change of placements
    /// on one mesh.
    ///
    /// Meshes of one shape exchange shard by shard, before, between or after collectives on either; for other meshes the
    /// parts are reduced first, and only the index ranges that a device needs move.
    ///
    /// ```
    /// use sharding_core::plan::VolumeCost;
    /// use sharding_core::redistribute::Program;
    /// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, TensorLayout};
    /// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 4], ["dp", "tp"])?;
    /// let rows = DeviceMapping::new(&mesh, [Place::Replicated, Place::Sharded(0)])?;
    /// let source = TensorLayout::new(DType::F32, [64, 64], rows)?;
    /// let columns = DeviceMapping::new(&mesh, [Place::Replicated, Place::Sharded(1)])?;
    /// let program = Program::search(&source, &source.with_mapping(columns)?, &VolumeCost)?;
    /// assert_eq!(program.steps.len(), 1);
    /// assert_eq!(program.steps[0].kind.name(), "all_to_all");
    /// assert_eq!(program.cost, 64.0 * 64.0 * 4.0 * 3.0 / 16.0);
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Sharding`] where there is none: to or from Unknown on an axis that changes, Partial targets from
    /// one device or from another grid. [`ErrorKind::Shape`] if the two are not layouts of one tensor.
    pub fn search(source: &TensorLayout, target: &TensorLayout, cost: &dyn CostModel) -> Result<Self> {
        if source.meta() != target.meta() {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("a redistribution keeps dtype and shape, not {} to {}", source.meta(), target.meta()),
            )
            .with_operands([format!("source: {source}"), format!("target: {target}")])
            .with_fix(
                "let target = source.with_mapping(mapping)?; a cast or a reshape is an op of its own",
            ));
        }
        let mut program =
            Self { source: source.clone(), target: target.clone(), steps: Vec::new(), cost: 0.0 };
        if source.mapping() == target.mapping() {
            return Ok(program);
        }
        if source.mesh().shape() == target.mesh().shape() {
            program.on_one_shape(cost)?;
        } else {
            mesh_move::between(&mut program, cost)?;
        }
        if let Some(last) = program.steps.last_mut() {
            // Equal, but with the target's axis types.
            last.target = target.clone();
        }
        for step in &program.steps {
            checked(step.kind, step.cost)?;
        }
        program.cost = program.steps.iter().map(|step| step.cost).sum();
        Ok(program)
    }

    /// Source and target lie on one mesh, or on two of one shape.
    fn on_one_shape(&mut self, cost: &dyn CostModel) -> Result<()> {
        let (source, target) = (self.source.clone(), self.target.clone());
        check_unknown(&source, &target)?;
        let memory = source.mapping().memory_kind();
        let (begin, end) = trivial_axes(&source, &target);
        let lay = |mesh: &DeviceMesh, places: &[Place]| -> Result<TensorLayout> {
            let mapping = DeviceMapping::new(mesh, places)?.with_memory_kind(memory);
            Ok(TensorLayout::from_checked(source.meta().clone(), mapping))
        };
        let first = if begin[..] == *source.places() { source.clone() } else { lay(source.mesh(), &begin)? };
        let same_memory = memory == target.mapping().memory_kind();
        let last = if same_memory && end[..] == *target.places() {
            target.clone()
        } else {
            lay(target.mesh(), &end)?
        };
        self.relabel(&source, &first, cost);
        let Some(path) = cheapest(&first, &last, cost)? else {
            let (price, fix) = if cost.key() == VolumeCost.key() {
                ("", "transfer it to Replicated first")
            } else {
                (
                    " at a finite price of the cost model in force",
                    "let CostModel::step give finite prices for the steps of some way",
                )
            };
            return Err(Error::new(
                ErrorKind::Sharding,
                format!(
                    "there is no redistribution from {} to {}{price}",
                    source.mapping(),
                    target.mapping()
                ),
            )
            .with_operands([format!("x: {source}")])
            .with_fix(fix));
        };
        let at = self.follow(path, first.clone(), &last, lay)?;
        let there = if same_memory { target.clone() } else { lay(target.mesh(), target.places())? };
        self.relabel(&at, &there, cost);
        if !same_memory {
            self.push_move(&there, &target, there.bytes() as f64, cost);
        }
        Ok(())
    }

    /// Appends the steps of a path; gives the layout at its end.
    fn follow(
        &mut self,
        path: Path,
        first: TensorLayout,
        last: &TensorLayout,
        lay: impl Fn(&DeviceMesh, &[Place]) -> Result<TensorLayout>,
    ) -> Result<TensorLayout> {
        let mut at = first;
        let n = path.len();
        for (i, hop) in path.into_iter().enumerate() {
            let search::Hop { kind, group, cost, places, arrived } = hop;
            let next = if i + 1 == n {
                last.clone()
            } else {
                lay(if arrived { last.mesh() } else { at.mesh() }, &places)?
            };
            let source = std::mem::replace(&mut at, next.clone());
            self.steps.push(Step { kind, axes: group.iter().collect(), source, target: next, cost });
        }
        Ok(at)
    }

    /// Appends a relabelling of the mesh axes of size 1 on which the two differ, if there are any.
    fn relabel(&mut self, from: &TensorLayout, to: &TensorLayout, cost: &dyn CostModel) {
        if from.places() == to.places() {
            return;
        }
        let pairs = from.places().iter().zip(to.places()).enumerate();
        let axes: SmallVec<[usize; 4]> = pairs.filter(|(_, (a, b))| a != b).map(|(axis, _)| axis).collect();
        let price = cost.step(&StepQuery {
            kind: StepKind::Relabel,
            mesh: from.mesh(),
            axes: &axes,
            group: 1,
            bytes: from.bytes() as f64,
            received: 0.0,
        });
        self.steps.push(Step {
            kind: StepKind::Relabel,
            axes,
            source: from.clone(),
            target: to.clone(),
            cost: price,
        });
    }

    /// Appends a move between meshes (or memories).
    pub(super) fn push_move(
        &mut self,
        from: &TensorLayout,
        to: &TensorLayout,
        received: f64,
        cost: &dyn CostModel,
    ) {
        let axes: SmallVec<[usize; 4]> = (0..from.mesh().ndim()).collect();
        let price = cost.step(&StepQuery {
            kind: StepKind::Move,
            mesh: from.mesh(),
            axes: &axes,
            group: from.mesh().num_devices(),
            bytes: from.bytes() as f64,
            received,
        });
        self.steps.push(Step {
            kind: StepKind::Move,
            axes,
            source: from.clone(),
            target: to.clone(),
            cost: price,
        });
    }
}

/// Whether a placement says which elements of the tensor a device holds.
pub(super) fn is_known(place: Place) -> bool {
    matches!(place, Place::Replicated | Place::Partial(_)) || place.tensor_axis().is_some()
}

/// The error for a change from or to Unknown.
pub(super) fn unknown(source: &TensorLayout, target: &TensorLayout, axis: usize, mesh: &DeviceMesh) -> Error {
    Error::new(
        ErrorKind::Sharding,
        format!(
            "{} cannot become {}: Unknown shards have no global value to keep",
            source.mapping(),
            target.mapping()
        ),
    )
    .with_mesh_axis(mesh.axis_name(axis), mesh.size(axis))
    .with_operands([format!("x: {source}")])
    .with_fix(
        "x.rebind_mapping(&mapping, shape) to claim a placement, or a collective such as all_reduce to combine the shards",
    )
}

fn check_unknown(source: &TensorLayout, target: &TensorLayout) -> Result<()> {
    for (axis, (from, to)) in source.places().iter().zip(target.places()).enumerate() {
        if from != to && !(is_known(*from) && is_known(*to)) {
            return Err(unknown(source, target, axis, source.mesh()));
        }
    }
    Ok(())
}

/// On mesh axes of size 1 a device holds the whole whatever the label. Gives the placements to search from and to,
/// which are equal there, so that nothing but a relabelling happens before and after.
fn trivial_axes(source: &TensorLayout, target: &TensorLayout) -> (Places, Places) {
    let (mut begin, mut end) = (Places::from_slice(source.places()), Places::from_slice(target.places()));
    if source.mesh().shape().iter().all(|size| *size > 1) {
        return (begin, end);
    }
    // The target's label from the start, unless it may clash with a label that others wear on the way.
    let op = |layout: &TensorLayout| layout.places().iter().find_map(|place| place.reduce_op());
    let clash =
        match (op(source), op(target)) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        } || source.places().iter().chain(target.places()).any(|place| matches!(place, Place::Custom(_)));
    for (axis, (from, to)) in begin.iter_mut().zip(end.iter_mut()).enumerate() {
        if source.mesh().size(axis) > 1 || from == to {
            continue;
        }
        let plain = |place: Place| match place {
            // On one device a custom placement may still hold its ranges in an order of its own.
            Place::Custom(custom) => custom.tensor_axis().is_some_and(|tensor_axis| {
                let extent = source.shape().extent(tensor_axis);
                let mut next = 0;
                let in_order = custom.placement().ranges(extent, 1, 0).iter().all(|range| {
                    let follows = range.start == next;
                    next = range.end;
                    follows
                });
                in_order && next == extent
            }),
            _ => true,
        };
        match (plain(*from), plain(*to)) {
            (true, true) if !clash => *from = *to,
            (a, b) => {
                if a {
                    *from = Place::Replicated;
                }
                if b {
                    *to = Place::Replicated;
                }
            }
        }
    }
    (begin, end)
}
