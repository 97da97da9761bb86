//! The plan of one call: rows, redistributions, and all that dispatch then needs without asking again.

use super::cache::KeyOperand;
use super::feasible::stage_price;
use super::{CostModel, Mode, Plan, PlanRequest, in_place, plan, text, trace};
use crate::backend::{Backend, IndexMap, Positions};
use crate::dispatch::guarded;
use crate::mapping::Places;
use crate::op::{ErasedKernel, Groups, OpArgs, OpDef, OperandDef, OperandKind, Registry};
use crate::redistribute::Program;
use crate::rule::{Role, RuleOperand};
use crate::tensor::{device_at, resolve};
use crate::{
    AxisType, DType, Device, DeviceMapping, DeviceMesh, Error, ErrorKind, Metas, Place, Region, Result,
    Scope, Shape, TensorLayout, TensorMeta, bail,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// A planned call; see [`crate::plan_call`].
pub struct CallPlan {
    pub(crate) plan: Plan,
    pub(crate) mesh: DeviceMesh,
    pub(crate) backend: &'static Arc<dyn Backend>,
    pub(crate) positions: Positions,
    pub(crate) devices: SmallVec<[Device; 2]>,
    pub(crate) roles: SmallVec<[Role; 4]>,
    /// How many of the arrays that a kernel reads belong to each declared operand: none to a written one.
    pub(crate) groups: SmallVec<[u16; 4]>,
    pub(crate) operands: SmallVec<[TensorLayout; 4]>,
    pub(crate) moves: SmallVec<[Option<Box<Program>>; 4]>,
    pub(crate) results: SmallVec<[TensorLayout; 2]>,
    /// The local shape of every result at every position, `None` where a placement is Unknown.
    pub(crate) shapes: Vec<SmallVec<[Option<Shape>; 2]>>,
    /// For each position the first one with the same regions of everything and shared memory: equal work if the
    /// inputs are the same too.
    pub(crate) twins: SmallVec<[usize; 2]>,
    pub(crate) kernel: ErasedKernel,
    /// The mesh axes along which the staged function communicates.
    pub(crate) staged: SmallVec<[usize; 2]>,
    /// What is certain of the price when the call is planned: all but exchanges whose maps are known.
    price: f64,
    exchanges: Option<Box<Exchanges>>,
    /// Whether some value is not held most by the first devices.
    pub(crate) uneven: bool,
    /// The report, in mode Warn where something moves.
    pub(crate) warning: Option<Box<str>>,
}

/// What the exchanges inside a call move, worked out where somebody asks: that takes as long as planning the call.
struct Exchanges {
    maps: Arc<[IndexMap]>,
    cost: Arc<dyn CostModel>,
    /// What the rows say of each mesh axis by itself.
    score: f64,
    price: OnceLock<f64>,
}

impl CallPlan {
    /// The chosen rows, their cost, and which operands move.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// What the call moves costs: the redistributions of its operands, what its exchanges bring to the device that lacks most,
    /// and the other collectives of staged rows at their score. In the unit of the cost model that planned it. (The
    /// [cost of the rows](Plan::cost) is a score of each mesh axis by itself.)
    ///
    /// On more than 64 devices an exchange is priced by some of them, as it is where it runs. Where a rule of a user's own does
    /// not say what its exchanges read (see [`AxisAssignment::maps`](crate::rule::AxisAssignment::maps)) they count at their score.
    pub fn price(&self) -> f64 {
        let Some(exchanges) = &self.exchanges else { return self.price };
        let price = exchanges.price.get_or_init(|| {
            let Exchanges { maps, cost, score, .. } = &**exchanges;
            let asked =
                || Ok(in_place::price(maps, &self.operands, &self.results, &self.staged, cost.as_ref()));
            guarded("the cost model", asked).ok().flatten().unwrap_or(*score)
        });
        self.price + price
    }
    /// The layout that each operand has when the kernel runs, on the op's mesh.
    pub fn operands(&self) -> &[TensorLayout] {
        &self.operands
    }
    /// The redistribution of each operand that moves; none of one that an exchange inside the op reads where it lies.
    pub fn moves(&self) -> impl Iterator<Item = Option<&Program>> {
        self.moves.iter().map(Option::as_deref)
    }
    /// The layout of each result.
    pub fn results(&self) -> &[TensorLayout] {
        &self.results
    }
    /// The op's mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }

    /// Plans a call from what it depends on.
    pub(crate) fn new(
        def: &'static OpDef,
        groups: Groups<'_>,
        operands: &[KeyOperand<'_>],
        args: &dyn OpArgs,
        scope: &Scope,
    ) -> Result<Self> {
        scope.check()?;
        let registry = Registry::get()?;
        if let Some(registered) = registry.find(def.name)
            && !registered.is_same(def)
        {
            let ((file, line), (other, at)) = (def.at, registered.at);
            return Err(Error::new(
                ErrorKind::Registry,
                format!("two ops named {}: at {file}:{line} and, registered, at {other}:{at}", def.name),
            )
            .with_fix("rename one of them"));
        }
        let mesh = op_mesh(def, groups, operands)?;
        check_single(def, groups, operands, &mesh)?;
        let scalar = scalar_dtype(def, groups, operands)?;
        let rule_operands: SmallVec<[RuleOperand; 4]> =
            operands.iter().map(|operand| rule_operand(operand, &mesh, scalar)).collect();
        let metas: SmallVec<[TensorMeta; 4]> =
            rule_operands.iter().map(|operand| operand.meta.clone()).collect();
        let results = (def.shape)(crate::op::Grouped::new(&metas, groups), args.as_any())?;
        check_results(def, &results)?;
        let request = PlanRequest {
            def,
            rows: scope.rule(def.name).unwrap_or(def.rows),
            args,
            mesh: &mesh,
            operands: &rule_operands,
            groups,
            results: &results,
            policy: scope.policy(),
            cost: scope.cost(),
            planner: scope.planner(),
        };
        let plan = plan(&request)?;
        let moves = !plan.moved.is_empty() || in_place::exchanges(&plan.rows);
        let warning = ((scope.policy().mode == Mode::Warn || scope.reports()) && moves)
            .then(|| trace(&request).to_string().into());
        Self::prepare(def, registry, mesh, groups, &rule_operands, operands, results, plan, warning, scope)
    }

    #[allow(clippy::too_many_arguments, reason = "one caller; the parts of a plan under construction")]
    fn prepare(
        def: &'static OpDef,
        registry: &Registry,
        mesh: DeviceMesh,
        groups: Groups<'_>,
        rule_operands: &[RuleOperand],
        operands: &[KeyOperand<'_>],
        results: Metas,
        plan: Plan,
        warning: Option<Box<str>>,
        scope: &Scope,
    ) -> Result<Self> {
        let (backend, positions) = resolve(&mesh)?;
        let devices = positions
            .iter()
            .map(|position| device_at(&mesh, *position))
            .collect::<Result<SmallVec<[Device; 2]>>>()?;
        let mut layouts: SmallVec<[TensorLayout; 4]> = SmallVec::new();
        let mut moves: SmallVec<[Option<Box<Program>>; 4]> = SmallVec::new();
        let (mut price, mut score) = (0.0, 0.0);
        for (axis, row) in plan.rows.iter().enumerate() {
            let (others, exchanged) =
                in_place::stages(row, |row| stage_price(row, &mesh, axis, scope.cost()));
            (price, score) = (price + others, score + exchanged);
        }
        let exchanges = in_place::exchanges(&plan.rows);
        let explicit = mesh.axis_types().contains(&AxisType::Explicit);
        for ((operand, rule), places) in operands.iter().zip(rule_operands).zip(&plan.operands) {
            let present = match operand {
                KeyOperand::Tensor(layout) | KeyOperand::Written(layout) if rule.role != Role::Single => {
                    Some(layout)
                }
                _ => None,
            };
            let (layout, program) = match present {
                Some(present) if present.places() == places.as_slice() => {
                    (TensorLayout::clone(present), None)
                }
                Some(present) => {
                    let target = TensorLayout::new(
                        present.dtype(),
                        present.shape(),
                        DeviceMapping::new(&mesh, places)?,
                    )?;
                    let read = exchanges.then(|| in_place::read_at(present, &target)).flatten();
                    let mut program = None;
                    if explicit || read.is_none() {
                        let wanted = Program::search(present, &target, scope.cost())?;
                        check_explicit(&wanted, &def.operand_name(groups, layouts.len()), &mesh)?;
                        program = Some(Box::new(wanted));
                    }
                    if let Some(layout) = &read {
                        program = if layout == *present {
                            None
                        } else {
                            Some(Box::new(Program::search(present, layout, scope.cost())?))
                        };
                    }
                    let layout = read.unwrap_or(target);
                    price += program.as_ref().map_or(0.0, |program| program.cost);
                    (layout, program)
                }
                None => (
                    TensorLayout::new(rule.meta.dtype, &rule.meta.shape, DeviceMapping::new(&mesh, places)?)?,
                    None,
                ),
            };
            layouts.push(layout);
            moves.push(program);
        }
        let results = results
            .into_iter()
            .zip(&plan.results)
            .map(|(meta, places)| {
                TensorLayout::new(meta.dtype, meta.shape, DeviceMapping::new(&mesh, places)?)
            })
            .collect::<Result<SmallVec<[TensorLayout; 2]>>>()?;
        let shapes = results.iter().map(|layout| local_shapes(layout, &positions)).collect();
        let twins = twins(backend.as_ref(), &positions, &devices, &layouts, &results);
        let staged = in_place::staged_axes(&plan.rows, &plan.operands, &layouts);
        let exchanges = in_place::maps(&plan.rows).filter(|_| exchanges).map(|maps| {
            let (maps, cost) = (maps.clone(), scope.shared_cost());
            Box::new(Exchanges { maps, cost, score, price: OnceLock::new() })
        });
        if exchanges.is_none() {
            price += score;
        }
        let uneven = layouts.iter().chain(&results).any(|layout| !layout.first_holds_most());
        let kernel = registry.kernel(def.name, backend.kind()).unwrap_or(def.kernel);
        let roles = rule_operands.iter().map(|operand| operand.role).collect();
        let read =
            |(n, declared): (&u16, &OperandDef)| if declared.kind == OperandKind::Written { 0 } else { *n };
        let kernel_groups = groups.0.iter().zip(def.operands).map(read).collect();
        Ok(Self {
            plan,
            mesh,
            backend,
            positions,
            devices,
            roles,
            groups: kernel_groups,
            operands: layouts,
            moves,
            results,
            shapes,
            twins,
            kernel,
            staged,
            price,
            exchanges,
            uneven,
            warning,
        })
    }
}

/// The mesh of the operand that is written, as that never moves; else of the first one on more than one device; else of
/// the first.
fn op_mesh(def: &OpDef, groups: Groups<'_>, operands: &[KeyOperand<'_>]) -> Result<DeviceMesh> {
    let layouts = || operands.iter().enumerate().filter_map(|(i, operand)| Some((i, operand.layout()?)));
    let written = || layouts().find(|(i, _)| matches!(operands.get(*i), Some(KeyOperand::Written(_))));
    let wide = || layouts().filter(|(_, layout)| layout.mesh().num_devices() > 1);
    let Some((first, layout)) = written().or_else(|| wide().next()).or_else(|| layouts().next()) else {
        return Err(Error::new(ErrorKind::Argument, "an op needs at least one tensor operand")
            .with_fix("make one of the numbers a tensor, or call full(..)"));
    };
    let mesh = layout.mesh();
    for (i, other) in wide() {
        if other.mesh() == mesh {
            continue;
        }
        let (a, b) = (def.operand_name(groups, first), def.operand_name(groups, i));
        let what =
            if other.mesh().same_grid(mesh) { "the same grid of other devices" } else { "another grid" };
        return Err(Error::new(
            ErrorKind::Sharding,
            format!(
                "{b} lies on {what} ({}) than {a} ({mesh}); an op never moves operands between meshes",
                other.mesh()
            ),
        )
        .with_fix(format!("let {b} = {b}.transfer_to(&DeviceMapping::new({a}.mesh(), [..])?)?;")));
    }
    // What is written is never spread over the op's mesh, also from one device.
    let is_written = |i: usize| matches!(operands.get(i), Some(KeyOperand::Written(_)));
    if let Some((i, other)) = layouts().find(|(i, other)| is_written(*i) && other.mesh() != mesh) {
        let (a, b) = (def.operand_name(groups, first), def.operand_name(groups, i));
        return Err(Error::new(
            ErrorKind::Sharding,
            format!("{b} is written where it lies, on {}, and {a} lies on {mesh}", other.mesh()),
        )
        .with_fix(format!(
            "let mut {b} = TensorBuffer::new({b}.to_tensor().transfer_to(&DeviceMapping::new({a}.mesh(), [..])?)?);"
        )));
    }
    strictest(mesh, layouts().map(|(_, layout)| layout.mesh()))
}

/// The mesh with, on every axis, the strictest type that an operand on it has: who labels one operand Explicit or Manual
/// must not depend on which operand comes first.
fn strictest<'a>(mesh: &DeviceMesh, others: impl Iterator<Item = &'a DeviceMesh>) -> Result<DeviceMesh> {
    let strictness = |kind: AxisType| match kind {
        AxisType::Auto => 0,
        AxisType::Explicit => 1,
        AxisType::Manual => 2,
    };
    let mut types: SmallVec<[AxisType; 4]> = mesh.axis_types().into();
    for other in others.filter(|other| *other == mesh) {
        for (own, theirs) in types.iter_mut().zip(other.axis_types()) {
            if strictness(*theirs) > strictness(*own) {
                *own = *theirs;
            }
        }
    }
    if types.as_slice() == mesh.axis_types() { Ok(mesh.clone()) } else { mesh.with_axis_types(types) }
}

/// On an explicit axis nothing is communicated. A rule's row speaks of one mesh axis; that a slice of it is not local,
/// because the cuts of a tensor axis that other mesh axes split too do not nest, shows in the program only.
fn check_explicit(program: &Program, operand: &str, mesh: &DeviceMesh) -> Result<()> {
    let explicit = |axis: &&usize| mesh.axis_types().get(**axis) == Some(&AxisType::Explicit);
    let steps = program.steps.iter().filter(|step| step.kind.communicates());
    let Some((step, axis)) = steps.filter_map(|step| Some((step, *step.axes.iter().find(explicit)?))).next()
    else {
        return Ok(());
    };
    // A placement of a user's own is the operand's.
    let written = |(axis, place): (usize, &Place)| {
        text::spelled_place(*place).unwrap_or_else(|| format!("{operand}.mapping().place({axis})"))
    };
    let places: Vec<String> = program.target.places().iter().enumerate().map(written).collect();
    Err(Error::new(
        ErrorKind::Sharding,
        format!(
            "{operand} would have to go from {} to {} by {}, and on an explicit mesh axis no op communicates by itself",
            program.source.mapping(),
            program.target.mapping(),
            step.kind.name()
        ),
    )
    .with_mesh_axis(mesh.axis_name(axis), mesh.size(axis))
    .with_fix(format!(
        "let {operand} = {operand}.transfer_to(&DeviceMapping::new({operand}.mesh(), [{}])?)?;",
        places.join(", ")
    )))
}

/// A one-device operand is passed whole: its device must hold the whole, which nobody knows of Unknown.
fn check_single(
    def: &OpDef,
    groups: Groups<'_>,
    operands: &[KeyOperand<'_>],
    mesh: &DeviceMesh,
) -> Result<()> {
    for (i, operand) in operands.iter().enumerate() {
        let Some(layout) = operand.layout().filter(|layout| layout.mesh() != mesh) else { continue };
        if layout.places().contains(&Place::Unknown) {
            let name = def.operand_name(groups, i);
            return Err(Error::new(
                ErrorKind::Sharding,
                format!("{name} is Unknown on its one device, so it cannot be passed whole"),
            )
            .with_fix(format!("{name}.rebind_mapping(&DeviceMapping::replicated({name}.mesh()), shape)?")));
        }
    }
    Ok(())
}

/// The dtype that numbers take: that of a tensor passed where a number could have been, else of the first tensor.
fn scalar_dtype(def: &OpDef, groups: Groups<'_>, operands: &[KeyOperand<'_>]) -> Result<DType> {
    let beside = operands.iter().enumerate().find_map(|(i, operand)| {
        let declared = def.operands.get(groups.locate(i).0)?;
        (declared.kind == OperandKind::Scalar).then(|| operand.layout()).flatten()
    });
    match beside.or_else(|| operands.iter().find_map(KeyOperand::layout)) {
        Some(layout) => Ok(layout.dtype()),
        None => bail!(Argument, "an op needs at least one tensor operand"),
    }
}

fn rule_operand(operand: &KeyOperand<'_>, mesh: &DeviceMesh, scalar: DType) -> RuleOperand {
    let whole = || -> Places { SmallVec::from_elem(Place::Replicated, mesh.ndim()) };
    match operand {
        KeyOperand::Scalar => {
            RuleOperand { meta: TensorMeta::new(scalar, []), places: whole(), role: Role::Scalar }
        }
        KeyOperand::Tensor(layout) if layout.mesh() != mesh => {
            RuleOperand { meta: layout.meta().clone(), places: whole(), role: Role::Single }
        }
        KeyOperand::Tensor(layout) => {
            RuleOperand { meta: layout.meta().clone(), places: layout.places().into(), role: Role::Tensor }
        }
        KeyOperand::Written(layout) => {
            RuleOperand { meta: layout.meta().clone(), places: layout.places().into(), role: Role::Written }
        }
    }
}

fn check_results(def: &OpDef, results: &Metas) -> Result<()> {
    if let Some(declared) = def.results
        && results.len() != declared
    {
        bail!(
            Internal,
            "the shape function gave {} results, the op is declared with {declared}",
            results.len()
        );
    }
    results.iter().try_for_each(|meta| Shape::new(&meta.shape).map(drop))
}

fn local_shapes(layout: &TensorLayout, positions: &Positions) -> SmallVec<[Option<Shape>; 2]> {
    let known = !layout.places().contains(&Place::Unknown);
    positions.iter().map(|position| known.then(|| layout.local_shape(*position))).collect()
}

fn twins(
    backend: &dyn Backend,
    positions: &Positions,
    devices: &[Device],
    operands: &[TensorLayout],
    results: &[TensorLayout],
) -> SmallVec<[usize; 2]> {
    let regions = |position: usize| -> SmallVec<[Region; 4]> {
        operands.iter().chain(results).map(|layout| layout.region(position)).collect()
    };
    // A value that is Partial may be made on its first device only, and Unknown ones are each their own.
    let plain = |layout: &TensorLayout| {
        layout.places().iter().all(|place| !place.is_partial() && *place != Place::Unknown)
    };
    let alike = operands.iter().chain(results).all(plain);
    let mut firsts: FxHashMap<SmallVec<[Region; 4]>, SmallVec<[usize; 1]>> = FxHashMap::default();
    let mut twins = SmallVec::new();
    for (i, position) in positions.iter().enumerate() {
        if !alike || positions.len() == 1 {
            twins.push(i);
            continue;
        }
        let shares = |j: &usize| matches!((devices.get(i), devices.get(*j)), (Some(a), Some(b)) if backend.shares_memory(*a, *b));
        let alike = firsts.entry(regions(*position)).or_default();
        match alike.iter().copied().find(|j| shares(j)) {
            Some(j) => twins.push(j),
            None => {
                alike.push(i);
                twins.push(i);
            }
        }
    }
    twins
}
