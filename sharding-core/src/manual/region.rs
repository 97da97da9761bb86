//! Regions: what is checked when wrapping, and what a call does.

use super::agreement::{Break, End};
use super::call;
use super::cx::{ManualCx, Shared};
use super::grid::Grid;
use super::local;
use super::pool::{Crew, Job, Latch};
use super::rendezvous::Rendezvous;
use super::spec::Spec;
use super::sync::whole;
use super::varies::{Inside, Running, Varies};
use crate::backend::{LocalArray, LocalArrays, ThreadState, within};
use crate::dispatch::panic_said;
use crate::tensor::{device_at, resolve};
use crate::{
    DeviceMapping, DeviceMesh, Error, ErrorKind, PartitionSpec, Place, Places, Result, Scope, Tensor,
    TensorLayout,
};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

const OP: &str = "shard_map";

/// The function of a region, whatever the number of its arguments.
pub(super) type Function = dyn Fn(&ManualCx, Vec<Tensor>) -> Result<Vec<Tensor>> + Send + Sync;

/// A region whose mesh, specs and function are known to fit.
pub(super) struct Region {
    grid: Arc<Grid>,
    ins: Vec<Spec>,
    outs: Vec<Spec>,
    check_vma: bool,
    function: Arc<Function>,
}

/// What the function gave on one device.
struct Outcome {
    given: Result<Vec<Tensor>>,
    /// Over which axes its way through the program may vary in the end.
    taint: Varies,
}

impl Region {
    pub(super) fn new(
        mesh: &DeviceMesh,
        names: Option<&[String]>,
        ins: Vec<PartitionSpec>,
        outs: Vec<PartitionSpec>,
        check_vma: bool,
        function: Arc<Function>,
    ) -> Result<Self> {
        let grid = Grid::new(mesh, names).map_err(|error| error.with_op(OP))?;
        let specs = |specs: Vec<PartitionSpec>, what: &str| -> Result<Vec<Spec>> {
            specs.into_iter().enumerate().map(|(i, spec)| Spec::new(&grid, spec, what, i)).collect()
        };
        let (ins, outs) = (specs(ins, "in_specs")?, specs(outs, "out_specs")?);
        Ok(Self { grid: Arc::new(grid), ins, outs, check_vma, function })
    }

    #[track_caller]
    pub(super) fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        let at = std::panic::Location::caller();
        let operands = || args.iter().enumerate().map(|(i, x)| format!("args[{i}]: {}", x.layout()));
        self.run(args).map_err(|error| error.with_op(OP).with_operands(operands()).with_location(at))
    }

    fn run(&self, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        if args.len() != self.ins.len() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("{} arguments for {} in_specs", args.len(), self.ins.len()),
            )
            .with_fix("give one tensor per in_spec"));
        }
        let running = Running::begin();
        let outer = Varies::around(args);
        let mut free = outer.free();
        let mut bits = vec![Varies::NONE; self.grid.mesh.ndim()];
        for axis in &self.grid.manual {
            // A value cannot vary over one device.
            if self.grid.mesh.size(*axis) > 1
                && let Some(bit) = bits.get_mut(*axis)
            {
                *bit = Varies::bit(free);
                free += 1;
            }
        }
        if free > u64::BITS {
            return Err(Error::new(ErrorKind::Manual, "regions of more than 64 mesh axes are nested"));
        }
        let own = bits.iter().fold(Varies::NONE, |all, bit| all.union(*bit));
        let shared = Arc::new(Shared {
            grid: self.grid.clone(),
            rendezvous: Rendezvous::new(self.grid.members.len(), {
                let grid = self.grid.clone();
                move |why| call::broken(&grid, why)
            }),
            bits,
            axes: outer.union(own),
        });
        let n = self.grid.members.len();
        let mut given: Vec<Vec<Tensor>> = (0..n).map(|_| Vec::with_capacity(args.len())).collect();
        for (i, (x, spec)) in args.iter().zip(&self.ins).enumerate() {
            let named: Vec<usize> = (0..self.grid.mesh.ndim()).filter(|axis| spec.names(*axis)).collect();
            let varies = x.varies().only(outer).union(shared.bits_of(&named));
            let blocks = self.blocks(x, spec, varies).map_err(|error| {
                error.with_op(OP).with_operands([format!("args[{i}]: {} by {}", x.layout(), spec.text())])
            })?;
            given.iter_mut().zip(blocks).for_each(|(given, block)| given.push(block));
        }
        let taint = Varies::taint();
        let outcomes = self.on_threads(&shared, given, taint)?;
        let taint = outcomes.iter().fold(taint, |all, outcome| all.union(outcome.taint));
        let seen = Seen { taint, elsewhere: running.read_elsewhere() };
        let taint = taint.only(outer);
        taint.seen_by_host();
        let values = self.agreed(&shared, outcomes)?;
        let mut results = Vec::with_capacity(self.outs.len());
        for (i, spec) in self.outs.iter().enumerate() {
            let each: Vec<&Tensor> = values.iter().filter_map(|values| values.get(i)).collect();
            results.push(self.result(&shared, spec, &each, &seen, outer).map_err(|error| {
                let layout = each.first().map(|value| format!(" of {}", value.layout())).unwrap_or_default();
                error.with_op(OP).with_operands([format!("results[{i}]{layout} by {}", spec.text())])
            })?);
        }
        Ok(results)
    }

    /// Each member's block of an argument.
    fn blocks(&self, x: &Tensor, spec: &Spec, varies: Varies) -> Result<Vec<Tensor>> {
        let grid = &*self.grid;
        let shape = spec.block(grid, x.shape())?;
        let rest = if x.mesh().same_grid(&grid.mesh) {
            spec.kept(grid, x.layout())?
        } else if x.mesh().num_devices() == 1 {
            Places::from_elem(Place::Replicated, grid.rest.len())
        } else {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("the argument lies on {}, which is another grid than {}", x.mesh(), grid.mesh),
            )
            .with_fix("x.transfer_to(&mapping) onto the mesh of the region"));
        };
        let memory = x.mapping().memory_kind();
        let (mapping, order) = spec.mapping(grid, &rest, memory)?;
        let moved = x.transfer_as(OP, &mapping)?;
        let places = if rest.is_empty() { Places::from_elem(Place::Replicated, 1) } else { rest };
        let (backend, _) = resolve(&grid.mesh)?;
        let mut blocks = Vec::with_capacity(grid.members.len());
        for member in &grid.members {
            let (_, positions) = resolve(&member.mesh)?;
            let mapping = DeviceMapping::new(&member.mesh, &places)?.with_memory_kind(memory);
            let layout = TensorLayout::new(x.dtype(), &shape, mapping)?;
            let mut shards = LocalArrays::with_capacity(positions.len());
            for inner in positions.iter() {
                let position = self.on_mesh(&order, member.origin + grid.offset(&grid.rest, *inner));
                shards.push(match shard_of(&moved, position) {
                    Some(shard) => shard.clone(),
                    // One of those that others stand for.
                    None => backend.alloc(
                        device_at(&member.mesh, *inner)?,
                        x.dtype(),
                        &layout.local_shape(*inner),
                    )?,
                });
            }
            blocks.push(Tensor::from_parts(layout, positions, shards, varies));
        }
        Ok(blocks)
    }

    /// The position of a device on the mesh whose axes are the region's in this order.
    fn on_mesh(&self, order: &[usize], position: usize) -> usize {
        let mesh = &self.grid.mesh;
        order.iter().fold(0, |at, axis| at * mesh.size(*axis) + mesh.coord(position, *axis))
    }

    /// Runs the function once per member: the first on this thread, each other on one of its own.
    fn on_threads(
        &self,
        shared: &Arc<Shared>,
        given: Vec<Vec<Tensor>>,
        taint: Varies,
    ) -> Result<Vec<Outcome>> {
        let n = given.len();
        let outcomes: Arc<Vec<Mutex<Option<Outcome>>>> = Arc::new((0..n).map(|_| Mutex::new(None)).collect());
        let latch = Arc::new(Latch::new(n.saturating_sub(1)));
        let (scope, states) = (Scope::current(), Arc::new(ThreadState::capture()));
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let span = tracing::Span::current();
        let crew = Crew::take(n.saturating_sub(1))?;
        let mut given = given.into_iter();
        let first = given.next();
        let jobs = given.enumerate().map(|(i, args)| {
            let work = Work::new(self, shared, i + 1, args, taint);
            let (outcomes, scope, states) = (outcomes.clone(), (*scope).clone(), states.clone());
            let (dispatch, span, come) = (dispatch.clone(), span.clone(), Come(latch.clone()));
            let job = move || {
                let mut work = Some(work);
                let mut run = || {
                    if let Some(work) = work.take() {
                        work.run(&outcomes);
                    }
                };
                tracing::dispatcher::with_default(&dispatch, || {
                    span.in_scope(|| scope.enter(|| within(&states, &mut run)));
                });
            };
            Box::new(move || {
                // All that the job holds is gone before the caller goes on.
                let _come = come;
                job();
            }) as Job
        });
        crew.start(jobs);
        if let Some(args) = first {
            Work::new(self, shared, 0, args, taint).run(&outcomes);
        }
        latch.wait();
        drop(crew);
        let lost = || Outcome {
            given: Err(Error::new(ErrorKind::Manual, "what runs around the function panicked")),
            taint: Varies::NONE,
        };
        Ok(outcomes.iter().map(|outcome| whole(outcome.lock()).take().unwrap_or_else(lost)).collect())
    }

    /// The members' results, if all came to their ends.
    fn agreed(&self, shared: &Shared, outcomes: Vec<Outcome>) -> Result<Vec<Vec<Tensor>>> {
        if let Some(why) = shared.rendezvous.broken() {
            let error = call::broken(&self.grid, &why);
            let ended = match &*why {
                Break::Ended { member, .. } => Some(*member),
                _ => None,
            };
            let cause =
                ended.and_then(|member| Some((member, outcomes.into_iter().nth(member)?.given.err()?)));
            return Err(match cause {
                None => error,
                Some((member, cause)) => {
                    let whole =
                        Error::new(cause.kind(), format!("{} ended the region", self.grid.name(member)));
                    let whole = match cause.mesh_axis() {
                        Some((name, size)) => whole.with_mesh_axis(name, size),
                        None => whole,
                    };
                    let whole = match cause.fix() {
                        Some(fix) => whole.with_fix(fix.to_owned()),
                        None => whole,
                    };
                    whole.with_source(cause)
                }
            });
        }
        let values: Result<Vec<Vec<Tensor>>> = outcomes.into_iter().map(|outcome| outcome.given).collect();
        let values = values?;
        for (member, values) in values.iter().enumerate() {
            if values.len() != self.outs.len() {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!(
                        "{} gave {} results for {} out_specs",
                        self.grid.name(member),
                        values.len(),
                        self.outs.len()
                    ),
                )
                .with_fix("return one tensor per out_spec"));
            }
        }
        Ok(values)
    }

    /// One result from what each member gave.
    fn result(
        &self,
        shared: &Shared,
        spec: &Spec,
        each: &[&Tensor],
        seen: &Seen,
        outer: Varies,
    ) -> Result<Tensor> {
        let grid = &*self.grid;
        let Some(first) = each.first() else {
            return Err(Error::new(ErrorKind::Internal, "a region without devices"));
        };
        let varies = each.iter().fold(seen.taint.only(outer), |all, value| all.union(value.varies()));
        if self.check_vma {
            self.check_varies(shared, spec, varies)?;
        }
        for (member, (value, own)) in each.iter().zip(&grid.members).enumerate() {
            if *value.mesh() != own.mesh {
                return Err(Error::new(
                    ErrorKind::Mesh,
                    format!(
                        "the result of {} lies on {}, not on its {}",
                        grid.name(member),
                        value.mesh(),
                        own.mesh
                    ),
                )
                .with_fix("y.transfer_to(&DeviceMapping::replicated(cx.mesh())) in the region"));
            }
            if value.layout().meta() != first.layout().meta()
                || value.layout().places() != first.layout().places()
                || value.mapping().memory_kind() != first.mapping().memory_kind()
            {
                return Err(Error::new(
                    ErrorKind::Manual,
                    format!(
                        "the devices gave different results: {} gave {}, {} gave {}",
                        grid.name(0),
                        first.layout(),
                        grid.name(member),
                        value.layout()
                    ),
                )
                .with_fix("give results of one shape, dtype and placement on all devices"));
            }
        }
        if self.check_vma {
            self.check_same(shared, spec, each, seen)?;
        }
        let shape = spec.whole(grid, first.shape())?;
        let free =
            each.iter().map(|value| local::unsplit(OP, value, &spec.split())).collect::<Result<Vec<_>>>()?;
        let rest: &[Place] = match free.first() {
            Some(value) if !grid.rest.is_empty() => value.layout().places(),
            _ => &[],
        };
        let (mapping, order) = spec.mapping(grid, rest, first.mapping().memory_kind())?;
        let layout = TensorLayout::new(first.dtype(), shape, mapping)?;
        let (backend, positions) = resolve(layout.mesh())?;
        // Where a device stands on the region's mesh, from where it stands on the result's.
        let back = |position: usize| -> usize {
            order
                .iter()
                .enumerate()
                .map(|(i, axis)| layout.mesh().coord(position, i) * grid.mesh.stride(*axis))
                .sum()
        };
        let mut shards = LocalArrays::with_capacity(positions.len());
        for position in positions.iter() {
            let own = back(*position);
            let mut from = own;
            for axis in grid.manual.iter().filter(|axis| !spec.names(**axis)) {
                from -= grid.mesh.coord(own, *axis) * grid.mesh.stride(*axis);
            }
            let device = device_at(layout.mesh(), *position)?;
            let inner = grid.mesh.device_coord(own, &grid.rest)?;
            let shard = |at: usize| -> Result<Option<&LocalArray>> {
                let member = grid.at_coord(grid.mesh.device_coord(at, &grid.manual)?);
                Ok(member.and_then(|member| shard_of(free.get(member)?, inner)))
            };
            // What is known to be the same on all devices may stay where it is; what is only claimed to be is the first's.
            let stays = self.check_vma || from == own;
            shards.push(match (shard(from)?, shard(own)?) {
                (Some(first), _) if backend.shares_memory(first.device(), device) => first.clone(),
                (Some(first), _) if !stays => local::copied(&**backend, OP, first, device)?,
                (_, Some(own)) => own.clone(),
                (Some(first), None) => local::copied(&**backend, OP, first, device)?,
                (None, None) => backend.alloc(device, layout.dtype(), &layout.local_shape(*position))?,
            });
        }
        Ok(Tensor::from_parts(layout, positions, shards, varies.only(outer)))
    }

    /// Values that need not vary over an axis can still be different ones: a function that has seen something of the axis may
    /// give one on this device and another on that. So they are compared, bit for bit, where the function may have; in
    /// builds with debug assertions always, which also finds what devices learned by ways that nobody follows.
    fn check_same(&self, shared: &Shared, spec: &Spec, each: &[&Tensor], seen: &Seen) -> Result<()> {
        let grid = &*self.grid;
        for axis in grid.manual.iter().filter(|axis| !spec.names(**axis)) {
            let axis = *axis;
            let chosen = seen.elsewhere || !seen.taint.only(shared.bits_of(&[axis])).is_none();
            if grid.mesh.size(axis) == 1 || !(chosen || cfg!(debug_assertions)) {
                continue;
            }
            for (member, (value, own)) in each.iter().zip(&grid.members).enumerate() {
                let first = own.origin - grid.mesh.coord(own.origin, axis) * grid.mesh.stride(axis);
                let first = grid.at_coord(grid.mesh.device_coord(first, &grid.manual)?);
                let Some((first, other)) = first.and_then(|first| Some((first, each.get(first)?))) else {
                    continue;
                };
                let Some(element) = other.differs_from(value)? else { continue };
                let name = grid.mesh.axis_name(axis);
                return Err(Error::new(
                    ErrorKind::Manual,
                    format!(
                        "the out_spec does not name the mesh axis '{name}', so it claims the same value on all devices along it, but {} and {} gave values that differ in element {element}",
                        grid.name(first),
                        grid.name(member)
                    ),
                )
                .with_mesh_axis(name, grid.mesh.size(axis))
                .with_fix(vary_fix(name)));
            }
        }
        Ok(())
    }

    /// A result may vary only over axes that its spec names.
    fn check_varies(&self, shared: &Shared, spec: &Spec, varies: Varies) -> Result<()> {
        for axis in self.grid.manual.iter().filter(|axis| !spec.names(**axis)) {
            if varies.only(shared.bits_of(&[*axis])).is_none() {
                continue;
            }
            let name = self.grid.mesh.axis_name(*axis);
            return Err(Error::new(
                ErrorKind::Manual,
                format!("the out_spec does not name the mesh axis '{name}', so it claims the same value on all devices along it, but the value may vary over it"),
            )
            .with_mesh_axis(name, self.grid.mesh.size(*axis))
            .with_fix(vary_fix(name)));
        }
        Ok(())
    }
}

fn vary_fix(name: &str) -> String {
    format!(
        "cx.psum(&y, \"{name}\")? (or pmax, pmean) in the region, '{name}' in the out_spec, or .check_vma(false) to take the first device's value on trust"
    )
}

/// What may have let devices give different ones of values that are each the same on all.
struct Seen {
    /// The axes over which their way through the function may vary.
    taint: Varies,
    /// Whether threads that are in no region have read a value of one.
    elsewhere: bool,
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |specs: &[Spec]| specs.iter().map(|spec| spec.text().to_string()).collect::<Vec<_>>().join(", ");
        write!(f, "ShardMap({}, [{}] to [{}])", self.grid.mesh, list(&self.ins), list(&self.outs))
    }
}

fn shard_of(x: &Tensor, position: usize) -> Option<&LocalArray> {
    x.shards().get(x.positions().binary_search(&position).ok()?)
}

/// Says that a job is done when all it held is gone.
struct Come(Arc<Latch>);

impl Drop for Come {
    fn drop(&mut self) {
        self.0.come();
    }
}

/// Says that a member ended, also where what runs around its function panics, such as a subscriber of spans: nobody may
/// wait for it.
struct Ending {
    shared: Arc<Shared>,
    member: usize,
    end: Option<End>,
}

impl Ending {
    fn with(mut self, end: End) {
        self.end = Some(end);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let lost = || End::Panicked("what runs around the function".to_owned());
        self.shared.rendezvous.end(self.member, self.end.take().unwrap_or_else(lost));
    }
}

/// One member's run.
struct Work {
    function: Arc<Function>,
    shared: Arc<Shared>,
    member: usize,
    args: Vec<Tensor>,
    taint: Varies,
    ending: Ending,
}

impl Work {
    fn new(region: &Region, shared: &Arc<Shared>, member: usize, args: Vec<Tensor>, taint: Varies) -> Self {
        let ending = Ending { shared: shared.clone(), member, end: None };
        Self { function: region.function.clone(), shared: shared.clone(), member, args, taint, ending }
    }

    fn run(self, outcomes: &[Mutex<Option<Outcome>>]) {
        let Self { function, shared, member, args, taint, ending } = self;
        let _inside = Inside::enter(shared.axes, taint);
        let cx = ManualCx::new(shared.clone(), member);
        let (given, end) = match catch_unwind(AssertUnwindSafe(|| function(&cx, args))) {
            Ok(Ok(values)) => (Ok(values), End::Returned),
            Ok(Err(error)) => {
                let text = error.message().to_owned();
                (Err(error), End::Failed(text))
            }
            Err(payload) => {
                let text = panic_said(payload);
                let error = Error::new(ErrorKind::Manual, format!("the function panicked: {text}"));
                (Err(error), End::Panicked(text))
            }
        };
        ending.with(end);
        if let Some(slot) = outcomes.get(member) {
            *whole(slot.lock()) = Some(Outcome { given, taint: Varies::taint() });
        }
    }
}
