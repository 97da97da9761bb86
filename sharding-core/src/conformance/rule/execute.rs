//! Running an op as its rows say: cut, run on every device, join, compare.

use super::Subject;
use super::trial::Trial;
use crate::backend::{Backend, IndexMap, LocalArray, LocalArrays, StepKind};
use crate::conformance::host::{HostArray, Random, close, flat_indices, parts, unravel};
use crate::kernel::KernelCx;
use crate::mapping::Places;
use crate::op::{Case, Grouped, Groups};
use crate::rule::{AxisAssignment, Role, StageCollective};
use crate::{
    DType, DeviceMapping, DeviceMesh, Place, ReduceOp, Result, Scalar, StageCx, TensorLayout, TensorMeta,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// What every device made: `results[i][position]` and `written[i][position]`.
pub(super) struct Execution {
    pub(super) results: Vec<Vec<HostArray>>,
    pub(super) written: Vec<Vec<HostArray>>,
    /// What the staged function ran.
    collectives: SmallVec<[StageCollective; 2]>,
    /// The maps of the exchanges among it.
    maps: Vec<IndexMap>,
}

impl Execution {
    /// Reads what the devices made; both lists are per device, then per array.
    pub(super) fn read(
        backend: &dyn Backend,
        results: &[LocalArrays],
        written: &[Vec<LocalArray>],
    ) -> Result<Self> {
        let read = |array: &LocalArray| HostArray::read(backend, array);
        let turned = |n: usize, at: &dyn Fn(usize, usize) -> Option<LocalArray>, devices: usize| {
            (0..n)
                .map(|i| (0..devices).filter_map(|device| at(device, i)).map(|array| read(&array)).collect())
                .collect::<Result<Vec<Vec<HostArray>>>>()
        };
        let count = results.iter().map(|made| made.len()).max().unwrap_or(0);
        let stores = written.iter().map(Vec::len).max().unwrap_or(0);
        Ok(Self {
            results: turned(count, &|d, i| results.get(d)?.get(i).cloned(), results.len())?,
            written: turned(stores, &|d, i| written.get(d)?.get(i).cloned(), written.len())?,
            collectives: SmallVec::new(),
            maps: Vec::new(),
        })
    }
}

/// What is wrong with a row.
pub(super) struct Wrong {
    pub(super) device: Option<usize>,
    pub(super) detail: String,
}

impl Wrong {
    pub(super) fn new(detail: impl Into<String>) -> Self {
        Self { device: None, detail: detail.into() }
    }
    fn at(device: usize, detail: impl Into<String>) -> Self {
        Self { device: Some(device), detail: detail.into() }
    }
}

/// The answer about a row.
pub(super) enum Answer {
    /// So many elements were compared.
    Sound {
        elements: usize,
    },
    /// No mapping can hold such placements, so no plan can choose them.
    Unreachable,
    Wrong(Wrong),
}

/// The operands that a kernel reads, their grouping (0 for written ones), and those it writes.
pub(super) fn kernel_operands(
    roles: &[Role],
    case: &Case,
    arrays: Vec<LocalArray>,
) -> (Vec<LocalArray>, Vec<u16>, Vec<LocalArray>) {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    let mut groups = case.groups.to_vec();
    for (flat, (array, role)) in arrays.into_iter().zip(roles).enumerate() {
        if *role == Role::Written {
            let (declared, _) = Groups(&case.groups).locate(flat);
            if let Some(group) = groups.get_mut(declared) {
                *group = 0;
            }
            written.push(array);
        } else {
            read.push(array);
        }
    }
    (read, groups, written)
}

type Cut = (TensorLayout, LocalArrays);

/// Runs one trial on one mesh; cut inputs are kept.
pub(super) struct Executor<'a> {
    subject: &'a Subject<'a>,
    trial: &'a Trial,
    mesh: &'a DeviceMesh,
    cuts: FxHashMap<(usize, Places), Cut>,
}

impl<'a> Executor<'a> {
    pub(super) fn new(subject: &'a Subject<'a>, trial: &'a Trial, mesh: &'a DeviceMesh) -> Self {
        Self { subject, trial, mesh, cuts: FxHashMap::default() }
    }

    /// Whether the rows, one per mesh axis, are sound together.
    pub(super) fn check(&mut self, rows: &[&AxisAssignment]) -> Answer {
        match self.try_check(rows) {
            Ok(answer) => answer,
            Err(wrong) => Answer::Wrong(wrong),
        }
    }

    fn try_check(&mut self, rows: &[&AxisAssignment]) -> Result<Answer, Wrong> {
        let or_whole = |place: Option<&Place>| place.copied().unwrap_or(Place::Replicated);
        let operands: Vec<Places> = (0..self.trial.inputs.len())
            .map(|i| rows.iter().map(|row| or_whole(row.operands.get(i))).collect())
            .collect();
        let results: Vec<Places> = (0..self.trial.results.len())
            .map(|i| rows.iter().map(|row| or_whole(row.results.get(i))).collect())
            .collect();
        let mut layouts = Vec::with_capacity(results.len());
        for (meta, places) in self.trial.results.iter().zip(&results) {
            match label(meta, self.mesh, places)? {
                Some(layout) => layouts.push(layout),
                None => return Ok(Answer::Unreachable),
            }
        }
        let staged: SmallVec<[usize; 2]> =
            rows.iter().enumerate().filter(|(_, row)| row.is_staged()).map(|(axis, _)| axis).collect();
        let Some((execution, cut)) = self.execute(&operands, &layouts, &staged)? else {
            return Ok(Answer::Unreachable);
        };
        for row in rows.iter().filter(|row| row.is_staged()) {
            // What an exchange moves depends on all mesh axes together; a row speaks of one.
            let agree = |(a, b): (&StageCollective, &StageCollective)| {
                let one = rows.len() == 1;
                a.kind == b.kind && (a.bytes == b.bytes || (a.kind == StepKind::Permute && !one))
            };
            let ran = &execution.collectives;
            if row.stages.len() != ran.len() || !row.stages.iter().zip(ran).all(agree) {
                return Err(Wrong::new(format!(
                    "the row declares the collectives {:?}, the staged function runs {:?}",
                    row.stages, execution.collectives
                )));
            }
            // As text: what fills may be NaN, which is not equal to itself.
            let text = |maps: &[IndexMap]| format!("{maps:?}");
            if row.maps.as_ref().is_some_and(|maps| text(maps) != text(&execution.maps)) {
                return Err(Wrong::new(format!(
                    "the row declares exchanges of {:?}, the staged function runs {:?}",
                    row.maps, execution.maps
                )));
            }
        }
        let mut elements = 0;
        if execution.results.len() != layouts.len() {
            return Err(Wrong::new(format!(
                "{} results are made where the shape function says {}",
                execution.results.len(),
                layouts.len()
            )));
        }
        for (i, ((layout, want), shards)) in
            layouts.iter().zip(&self.trial.wants).zip(&execution.results).enumerate()
        {
            // Nothing is claimed of a result that is Unknown beside others that are not.
            if !layout.places().contains(&Place::Unknown) {
                compare(&format!("result {i}"), layout, want, shards)?;
                elements += want.values.len();
            }
        }
        let written = self.trial.roles.iter().enumerate().filter(|(_, role)| **role == Role::Written);
        for (((i, _), want), shards) in written.zip(&self.trial.written).zip(&execution.written) {
            let name = self.subject.def.operand_name(Groups(&self.trial.case.groups), i);
            if let Some(layout) = cut.get(i) {
                compare(&format!("the written operand {name}"), layout, want, shards)?;
                elements += want.values.len();
            }
        }
        Ok(Answer::Sound { elements })
    }

    /// Runs the kernel, or the staged function, on every device; `None` where no mapping can hold the operands.
    /// Gives the operands' layouts too.
    pub(super) fn execute(
        &mut self,
        operands: &[Places],
        results: &[TensorLayout],
        staged: &[usize],
    ) -> Result<Option<(Execution, Vec<TensorLayout>)>, Wrong> {
        let (mut layouts, mut shards) = (Vec::new(), Vec::new());
        for (i, places) in operands.iter().enumerate() {
            let Some((layout, arrays)) = self.cut(i, places)? else { return Ok(None) };
            layouts.push(layout);
            shards.push(arrays);
        }
        let subject = self.subject;
        let case = &self.trial.case;
        if !staged.is_empty() {
            let positions: Vec<usize> = (0..self.mesh.num_devices()).collect();
            let mut cx =
                StageCx::new(subject.backend, subject.def.name, &positions, &layouts, results, staged);
            let made = super::caught(|| {
                (subject.def.stages)(&mut cx, Grouped::new(&shards, Groups(&case.groups)), case.args.as_any())
            })
            .map_err(|error| Wrong::new(format!("the staged function fails: {error}")))?;
            let mut per_device: Vec<LocalArrays> = vec![LocalArrays::new(); positions.len()];
            for result in made {
                for (device, array) in per_device.iter_mut().zip(result) {
                    device.push(array);
                }
            }
            let mut execution = Execution::read(subject.backend, &per_device, &[])
                .map_err(|error| Wrong::new(error.to_string()))?;
            execution.collectives = cx.collectives().into();
            execution.maps = cx.maps().to_vec();
            return Ok(Some((execution, layouts)));
        }
        let (mut made, mut stored) = (Vec::new(), Vec::new());
        for (position, device) in self.mesh.devices().enumerate() {
            let arrays: Vec<LocalArray> =
                shards.iter().filter_map(|arrays| arrays.get(position).cloned()).collect();
            let (read, groups, mut written) = kernel_operands(&self.trial.roles, case, arrays);
            let read: Vec<&LocalArray> = read.iter().collect();
            let mut cx =
                KernelCx::new(subject.backend, subject.def.name, device, position, &layouts, results);
            let mut outputs = LocalArrays::new();
            super::caught(|| {
                (subject.kernel)(
                    &mut cx,
                    Grouped::new(&read, Groups(&groups)),
                    &mut written,
                    case.args.as_any(),
                    &mut outputs,
                )
            })
            .map_err(|error| Wrong::at(position, format!("the kernel fails: {error}")))?;
            made.push(outputs);
            stored.push(written);
        }
        let execution = Execution::read(subject.backend, &made, &stored)
            .map_err(|error| Wrong::new(error.to_string()))?;
        Ok(Some((execution, layouts)))
    }

    /// The shards of an operand under placements.
    fn cut(&mut self, operand: usize, places: &Places) -> Result<Option<Cut>, Wrong> {
        let key = (operand, places.clone());
        if let Some((layout, arrays)) = self.cuts.get(&key) {
            return Ok(Some((layout.clone(), arrays.clone())));
        }
        let (Some(whole), Some(role)) = (self.trial.inputs.get(operand), self.trial.roles.get(operand))
        else {
            return Err(Wrong::new(format!("there is no operand {operand}")));
        };
        let meta = TensorMeta { dtype: whole.dtype, shape: whole.shape.clone() };
        let Some(layout) = label(&meta, self.mesh, places)? else { return Ok(None) };
        let ways = parts_of(&layout);
        let terms = match places.iter().find_map(|place| place.reduce_op()) {
            None => vec![whole.clone()],
            // A number counts once: the first device holds it.
            Some(op) if *role == Role::Scalar => {
                let identity = HostArray::filled(whole.dtype, &whole.shape, op.identity(whole.dtype));
                (0..ways).map(|i| if i == 0 { whole.clone() } else { identity.clone() }).collect()
            }
            Some(op) => parts(whole, op, ways, &mut Random::new(77 + operand as u64)),
        };
        let mut arrays = LocalArrays::new();
        for (position, device) in self.mesh.devices().enumerate() {
            let Some(term) = terms.get(part_at(&layout, position)) else { continue };
            let array = term
                .cut(&layout.region(position))
                .put(self.subject.backend, device)
                .map_err(|error| Wrong::at(position, format!("cutting operand {operand}: {error}")))?;
            arrays.push(array);
        }
        // Written storages must have no other owner.
        if *role != Role::Written {
            self.cuts.insert(key, (layout.clone(), arrays.clone()));
        }
        Ok(Some((layout, arrays)))
    }
}

/// The layout that placements give a tensor; `None` where no mapping can hold them together.
pub(super) fn label(
    meta: &TensorMeta,
    mesh: &DeviceMesh,
    places: &Places,
) -> Result<Option<TensorLayout>, Wrong> {
    let Ok(mapping) = DeviceMapping::new(mesh, places) else { return Ok(None) };
    match TensorLayout::new(meta.dtype, &meta.shape, mapping) {
        Ok(layout) => Ok(Some(layout)),
        Err(error) => Err(Wrong::new(format!("{meta} cannot be placed {places:?}: {error}"))),
    }
}

/// The number of terms that the Partial mesh axes of a layout hold together.
fn parts_of(layout: &TensorLayout) -> usize {
    let sizes = layout.places().iter().zip(layout.mesh().shape()).filter(|(place, _)| place.is_partial());
    sizes.map(|(_, size)| *size).product()
}

/// Which of the terms a device holds.
fn part_at(layout: &TensorLayout, position: usize) -> usize {
    let mesh = layout.mesh();
    let partial = layout.places().iter().enumerate().filter(|(_, place)| place.is_partial());
    partial.fold(0, |part, (axis, _)| part * mesh.size(axis) + mesh.coord(position, axis))
}

/// Joins shards as their label says and compares with the whole.
fn compare(what: &str, layout: &TensorLayout, want: &HostArray, shards: &[HostArray]) -> Result<(), Wrong> {
    let got = join(what, layout, shards)?;
    let Some(difference) = want.first_difference(&got) else { return Ok(()) };
    let holds = |position: &usize| {
        layout
            .region(*position)
            .iter()
            .zip(&difference.index)
            .all(|(ranges, i)| ranges.iter().any(|range| range.contains(i)))
    };
    let device = (0..layout.mesh().num_devices()).find(holds);
    Err(Wrong {
        device,
        detail: format!("{what} {:?}: wanted {}, got {}", difference.index, difference.want, difference.got),
    })
}

/// The whole that shards make under a label.
pub(super) fn join(what: &str, layout: &TensorLayout, shards: &[HostArray]) -> Result<HostArray, Wrong> {
    let n = layout.mesh().num_devices();
    if shards.len() != n {
        return Err(Wrong::new(format!("{what}: {} shards for {n} devices", shards.len())));
    }
    let shape = layout.shape();
    let mut terms: Vec<Vec<Option<Scalar>>> = vec![vec![None; shape.elements()]; parts_of(layout)];
    for (position, shard) in shards.iter().enumerate() {
        let local = layout.local_shape(position);
        if shard.shape != local || shard.dtype != layout.dtype() {
            return Err(Wrong::at(
                position,
                format!(
                    "{what}: the label {} says a shard of {}{local}, the kernel makes {}{}",
                    layout.mapping(),
                    layout.dtype(),
                    shard.dtype,
                    shard.shape
                ),
            ));
        }
        let Some(term) = terms.get_mut(part_at(layout, position)) else { continue };
        for (flat, value) in flat_indices(shape, &layout.region(position)).into_iter().zip(&shard.values) {
            let Some(slot) = term.get_mut(flat) else { continue };
            match slot {
                Some(other) if !same_bits(layout.dtype(), *other, *value) => {
                    return Err(Wrong::at(
                        position,
                        format!(
                            "{what} {:?}: replicas differ, {other} on an earlier device and {value} here",
                            unravel(shape, flat)
                        ),
                    ));
                }
                _ => *slot = Some(*value),
            }
        }
    }
    let op = layout.places().iter().find_map(|place| place.reduce_op()).unwrap_or(ReduceOp::Sum);
    let mut whole: Option<HostArray> = None;
    for term in terms {
        let values: Option<Vec<Scalar>> = term.into_iter().collect();
        let values = values.ok_or_else(|| {
            Wrong::new(format!("{what}: the label {} does not cover every element", layout.mapping()))
        })?;
        let term = HostArray { dtype: layout.dtype(), shape: shape.clone(), values };
        match &mut whole {
            None => whole = Some(term),
            Some(whole) => whole.combine(op, &term),
        }
    }
    whole.ok_or_else(|| Wrong::new(format!("{what}: nothing to join")))
}

fn same_bits(dtype: DType, a: Scalar, b: Scalar) -> bool {
    a == b || (close(dtype, a, b) && a.as_f64().is_nan())
}
