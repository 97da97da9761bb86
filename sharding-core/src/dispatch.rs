//! Dispatch: layouts, plan (cached), redistribution, local kernels on all addressable devices, results.

use crate::backend::{LocalArray, LocalArrays, Move};
use crate::kernel::Together;
use crate::manual::Varies;
use crate::op::{Grouped, Groups, KeyWriter, Op, OpArgs, OpDef};
use crate::plan::{CallPlan, Key, KeyOperand, PlanCache};
use crate::record::Call;
use crate::rule::Role;
use crate::tensor::host_bytes;
use crate::trace::{self, Event, Seen, place};
use crate::{
    Device, DeviceMapping, Error, ErrorKind, KernelCx, Mode, Operand, Place, Result, Results, Scalar, Scope,
    StageCx, Tensor, TensorBuffer, TensorLayout, bail,
};
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

thread_local! {
    static CACHE: RefCell<PlanCache> = RefCell::new(PlanCache::default());
    /// The outermost op that runs on this thread, and where it was called.
    static OUTERMOST: Cell<Option<(&'static str, &'static Location<'static>)>> = const { Cell::new(None) };
    /// Whether the call that runs has values of which the first device does not hold the most.
    static UNEVEN: Cell<bool> = const { Cell::new(false) };
}

/// Runs an op: what the function that `#[sharding_rule]` makes calls.
///
/// # Errors
/// What shape function, rule, planner, redistribution, kernel or recorder say, with the op and its operands.
#[track_caller]
pub fn dispatch<O: Op>(operands: &mut [Operand<'_>], args: O::Args) -> Result<Results> {
    run(O::DEF, operands, &args, Location::caller())
}

/// [`dispatch`] of an op that is known at run time only; `args` must be of the op's type.
///
/// # Errors
/// As [`dispatch`].
#[track_caller]
pub fn dispatch_dyn(def: &'static OpDef, operands: &mut [Operand<'_>], args: &dyn OpArgs) -> Result<Results> {
    run(def, operands, args, Location::caller())
}

/// The plan of a call, from the cache or made now, without running it.
///
/// # Errors
/// What shape function, rule and planner say.
#[track_caller]
pub fn plan_call(def: &'static OpDef, operands: &[Operand<'_>], args: &dyn OpArgs) -> Result<Arc<CallPlan>> {
    let at = Location::caller();
    let call = Flat::new(operands);
    planned(def, &call, args, &Scope::current()).map_err(|error| located(error, def, operands, at))
}

/// Forgets all cached plans and redistributions of this thread, for measurements.
pub fn clear_plan_cache() {
    CACHE.with(|cache| cache.borrow_mut().clear());
    crate::redistribute::clear_programs();
    crate::backend::clear_recipes();
}

/// What the user called: see [`caller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The outermost op, or `transfer_to`.
    pub op: &'static str,
    /// The line of the program that called it.
    pub at: &'static Location<'static>,
    /// Whether the op that runs has an operand or result of which the first device along a mesh axis does not hold the
    /// most: a placement of the open trait, such as `Ragged`.
    pub uneven: bool,
}

/// What the user called that runs on this thread now: for backends that say what caused their work. `None` outside.
pub fn caller() -> Option<Caller> {
    OUTERMOST.get().map(|(op, at)| Caller { op, at, uneven: UNEVEN.get() })
}

/// Runs what makes a tensor of no operand, of the layout that it will have: spans, watchers and backends see an op of this name,
/// called at `at`. For functions that `#[sharding_rule]` does not make; a [`Recorder`](crate::Recorder) does not hear of it.
///
/// # Errors
/// What `make` says.
pub fn making<T>(
    op: &'static str,
    at: &'static Location<'static>,
    layout: &TensorLayout,
    make: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let _outermost = Outermost::enter(op, at);
    // Of a tensor that comes from nowhere the bytes are its own.
    let _span =
        tracing::trace_span!("op", name = op, operands = "", result = %layout, bytes = layout.bytes())
            .entered();
    let mut seen = Seen::new(|| Event::Op { name: op, at, operands: Vec::new(), results: Vec::new() });
    let _uneven = Uneven(UNEVEN.replace(!layout.first_holds_most()));
    let made = make()?;
    seen.results(std::iter::once(layout));
    Ok(made)
}

/// The operands of a call as plans depend on them, flat.
#[derive(Default)]
struct Flat<'a> {
    groups: SmallVec<[u16; 4]>,
    keys: SmallVec<[KeyOperand<'a>; 4]>,
}

impl<'a> Flat<'a> {
    fn new(operands: &'a [Operand<'_>]) -> Self {
        let mut flat = Self::default();
        for operand in operands {
            let before = flat.keys.len();
            match operand {
                Operand::Tensor(tensor) | Operand::Optional(Some(tensor)) => {
                    flat.keys.push(KeyOperand::Tensor(tensor.layout()));
                }
                Operand::Optional(None) => {}
                Operand::Many(tensors) => {
                    flat.keys.extend(tensors.iter().map(|tensor| KeyOperand::Tensor(tensor.layout())));
                }
                Operand::Scalar(_) => flat.keys.push(KeyOperand::Scalar),
                Operand::Written(buffer) => flat.keys.push(KeyOperand::Written(buffer.tensor_layout())),
            }
            flat.groups.push(u16::try_from(flat.keys.len() - before).unwrap_or(u16::MAX));
        }
        flat
    }
}

/// Adds op and operands to an error.
fn located(
    error: Error,
    def: &'static OpDef,
    operands: &[Operand<'_>],
    at: &'static Location<'static>,
) -> Error {
    let call = Flat::new(operands);
    let text = |(i, operand): (usize, &KeyOperand<'_>)| {
        let name = def.operand_name(Groups(&call.groups), i);
        match operand {
            KeyOperand::Tensor(layout) | KeyOperand::Written(layout) => format!("{name}: {layout}"),
            KeyOperand::Scalar => format!("{name}: a number"),
        }
    };
    error.with_op(def.name).with_operands(call.keys.iter().enumerate().map(text)).with_location(at)
}

fn planned(def: &'static OpDef, call: &Flat<'_>, args: &dyn OpArgs, scope: &Scope) -> Result<Arc<CallPlan>> {
    if call.groups.len() != def.operands.len() {
        bail!(Argument, "{} operands were passed, the op takes {}", call.groups.len(), def.operands.len());
    }
    let mut words = KeyWriter::new();
    args.key(&mut words);
    let key = Key {
        def,
        scope: scope.plan_key(),
        args: &words,
        groups: Groups(&call.groups),
        operands: &call.keys,
    };
    if let Some(plan) = CACHE.with(|cache| cache.borrow_mut().get(&key)) {
        return Ok(plan);
    }
    // Rules and shape functions are foreign code too.
    let made = guarded("the op's rule or the cost model", || {
        CallPlan::new(def, key.groups, &call.keys, args, scope)
    })?;
    let plan = Arc::new(made);
    CACHE.with(|cache| cache.borrow_mut().insert(&key, plan.clone()));
    Ok(plan)
}

/// Runs foreign code, such as the cost model that a user gave: a panic becomes an error that says whose it was.
///
/// # Errors
/// [`ErrorKind::Kernel`] for a panic, else what the code says.
pub fn guarded<T>(whose: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| {
        let message = panic_said(payload);
        Err(Error::new(ErrorKind::Kernel, format!("{whose} panicked: {message}")))
    })
}

/// What a panic said; its payload, which may be anything, is dropped here, and may panic at that.
pub(crate) fn panic_said(payload: Box<dyn Any + Send>) -> String {
    let text = panic_text(&*payload).to_owned();
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // It could go on like that for ever: what it leaves is never dropped.
        std::mem::forget(again);
    }
    text
}

/// What a panic said.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The outermost op that runs on this thread, and where it was called.
pub(crate) fn outermost() -> Option<(&'static str, &'static Location<'static>)> {
    OUTERMOST.get()
}

/// Restores the outermost call on all ways out.
pub(crate) struct Outermost(Option<(&'static str, &'static Location<'static>)>);

impl Outermost {
    pub(crate) fn enter(op: &'static str, at: &'static Location<'static>) -> Self {
        let outer = OUTERMOST.get();
        if outer.is_none() {
            OUTERMOST.set(Some((op, at)));
        }
        Self(outer)
    }

    /// As if nothing ran on this thread: for what it runs on behalf of others.
    pub(crate) fn replace(op: &'static str, at: &'static Location<'static>) -> Self {
        Self(OUTERMOST.replace(Some((op, at))))
    }

    /// Whether nothing ran on this thread before.
    pub(crate) fn is_first(&self) -> bool {
        self.0.is_none()
    }
}

/// Restores what was said of the outer call on all ways out.
struct Uneven(bool);

impl Drop for Uneven {
    fn drop(&mut self) {
        UNEVEN.set(self.0);
    }
}

impl Drop for Outermost {
    fn drop(&mut self) {
        OUTERMOST.set(self.0);
    }
}

fn run(
    def: &'static OpDef,
    operands: &mut [Operand<'_>],
    args: &dyn OpArgs,
    at: &'static Location<'static>,
) -> Result<Results> {
    let scope = Scope::in_force();
    let outermost = Outermost::enter(def.name, at);
    let _span = tracing::trace_span!(
        "op",
        name = def.name,
        operands = %Layouts(operands),
        bytes = trace::bytes(layouts(operands)),
    )
    .entered();
    let mut seen = Seen::new(|| Event::Op {
        name: def.name,
        at,
        operands: layouts(operands).cloned().collect(),
        results: Vec::new(),
    });
    // Filled where they stand, here and below: they are long, and to hand them up would copy them at every level.
    let mut inputs = Inputs::default();
    let plan = match ready(def, operands, args, &scope, at, &mut inputs) {
        Ok(plan) => plan,
        Err(error) => return Err(located(error, def, operands, at)),
    };
    let varies = Varies::of_operands(operands);
    let mut outputs = Outputs::new();
    if let Err(error) = executed(def, &plan, operands, &inputs, args.as_any(), varies, &mut outputs) {
        return Err(located(error, def, operands, at));
    }
    let mut results: SmallVec<[Tensor; 2]> = SmallVec::new();
    for (layout, shards) in plan.results.iter().zip(&mut outputs) {
        let shards = std::mem::take(shards);
        results.push(Tensor::from_parts(layout.clone(), plan.positions.clone(), shards, varies));
    }
    seen.results(results.iter().map(Tensor::layout));
    if let Some(recorder) = scope.recorder()
        && outermost.is_first()
    {
        let tensors: SmallVec<[&Tensor; 4]> = read(operands).collect();
        let call = Call { def, operands: &tensors, args, results: &results, cost: plan.plan.cost };
        guarded("the recorder", || recorder.record(&call))
            .map_err(|error| located(error, def, operands, at))?;
    }
    Ok(Results::new(results))
}

/// Plan and moved inputs: all that reads the operands, before buffers among them are written.
fn ready<'a>(
    def: &'static OpDef,
    operands: &[Operand<'a>],
    args: &dyn OpArgs,
    scope: &Scope,
    at: &'static Location<'static>,
    into: &mut Inputs<'a>,
) -> Result<Arc<CallPlan>> {
    let call = Flat::new(operands);
    let plan = planned(def, &call, args, scope)?;
    if let Some(report) = &plan.warning {
        if scope.policy().mode == Mode::Warn {
            warn(def.name, report, at);
        }
        scope.watchers().iter().for_each(|watch| trace::tell(|| watch.report(report, def.name, at)));
    }
    into.add(def.name, &plan, operands)?;
    Ok(plan)
}

fn warn(op: &'static str, report: &str, at: &'static Location<'static>) {
    match OUTERMOST.get() {
        Some((outer, outer_at)) if outer != op => {
            tracing::warn!("{report}\n  called by {outer} at {}", place(outer_at));
        }
        _ => tracing::warn!("{report}\n  at {}", place(at)),
    }
}

/// The tensors among the operands; buffers are none.
fn read<'a>(operands: &[Operand<'a>]) -> impl Iterator<Item = &'a Tensor> {
    operands.iter().flat_map(|operand| -> SmallVec<[&'a Tensor; 2]> {
        match *operand {
            Operand::Tensor(tensor) | Operand::Optional(Some(tensor)) => smallvec![tensor],
            Operand::Many(tensors) => tensors.iter().collect(),
            Operand::Optional(None) | Operand::Scalar(_) | Operand::Written(_) => SmallVec::new(),
        }
    })
}

/// The layouts of the tensors and buffers among the operands.
fn layouts<'a>(operands: &'a [Operand<'_>]) -> impl Iterator<Item = &'a TensorLayout> {
    operands.iter().flat_map(|operand| -> SmallVec<[&'a TensorLayout; 2]> {
        match operand {
            Operand::Tensor(tensor) | Operand::Optional(Some(tensor)) => smallvec![tensor.layout()],
            Operand::Many(tensors) => tensors.iter().map(|tensor| tensor.layout()).collect(),
            Operand::Written(buffer) => smallvec![buffer.tensor_layout()],
            Operand::Optional(None) | Operand::Scalar(_) => SmallVec::new(),
        }
    })
}

/// Operands as a field of a span: only written where somebody subscribes.
struct Layouts<'a, 'b>(&'a [Operand<'b>]);

impl fmt::Display for Layouts<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, layout) in layouts(self.0).enumerate() {
            write!(f, "{}{layout}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The local arrays of an operand where the kernels run.
#[derive(Clone, Copy)]
enum Input<'a> {
    /// It did not move.
    Present(&'a LocalArrays),
    /// It was moved or made for this call: a place in [`Inputs::made`].
    Made(usize),
}

/// The inputs of a call, flat; written operands are absent.
#[derive(Default)]
struct Inputs<'a> {
    list: SmallVec<[Input<'a>; 4]>,
    made: SmallVec<[LocalArrays; 2]>,
}

impl<'a> Inputs<'a> {
    #[inline]
    fn make(&mut self, arrays: LocalArrays) {
        self.list.push(Input::Made(self.made.len()));
        self.made.push(arrays);
    }

    /// The local arrays of each, in order.
    fn arrays(&self) -> impl Iterator<Item = &LocalArrays> {
        self.list.iter().filter_map(|input| match *input {
            Input::Present(arrays) => Some(arrays),
            Input::Made(i) => self.made.get(i),
        })
    }

    /// Whether two devices have the same elements of the same storages.
    fn are_shared(&self, i: usize, k: usize) -> bool {
        self.arrays()
            .all(|arrays| matches!((arrays.get(i), arrays.get(k)), (Some(a), Some(b)) if a.same_as(b)))
    }

    /// Adds all operands: brings them where the rows want them.
    fn add(&mut self, op: &'static str, plan: &CallPlan, operands: &[Operand<'a>]) -> Result<()> {
        // The number of the operand in the flat list.
        let mut i = 0;
        for operand in operands {
            match *operand {
                Operand::Tensor(tensor) | Operand::Optional(Some(tensor)) => {
                    self.add_tensor(op, plan, i, tensor)?;
                    i += 1;
                }
                Operand::Optional(None) => {}
                Operand::Many(tensors) => {
                    for tensor in tensors {
                        self.add_tensor(op, plan, i, tensor)?;
                        i += 1;
                    }
                }
                Operand::Scalar(value) => {
                    self.make(number(plan, i, value)?);
                    i += 1;
                }
                Operand::Written(_) => i += 1,
            }
        }
        Ok(())
    }

    fn add_tensor(&mut self, op: &'static str, plan: &CallPlan, i: usize, tensor: &'a Tensor) -> Result<()> {
        if let Some(program) = plan.moves.get(i).and_then(Option::as_deref) {
            let mut shards = LocalArrays::with_capacity(tensor.shards().len());
            for shard in tensor.shards() {
                shards.push(shard.clone());
            }
            self.make(program.run(op, shards)?);
        } else if plan.roles.get(i) == Some(&Role::Single) {
            self.make(spread(op, plan, tensor)?);
        } else {
            self.list.push(Input::Present(tensor.shards()));
        }
        Ok(())
    }
}

/// A one-device tensor on every device of the op's mesh.
fn spread(op: &'static str, plan: &CallPlan, tensor: &Tensor) -> Result<LocalArrays> {
    // A placement of the open trait may hold even the whole in an order of its own.
    let plain = match tensor.layout().places().iter().any(|place| matches!(place, Place::Custom(_))) {
        true => Some(tensor.transfer_to(&DeviceMapping::replicated(tensor.mesh()))?),
        false => None,
    };
    let Some(whole) = plain.as_ref().unwrap_or(tensor).shards().first() else {
        bail!(Process, "the one device of {} is not addressable in this process", tensor.layout());
    };
    plan.devices.iter().map(|device| bring(op, plan, whole, *device)).collect()
}

fn bring(op: &'static str, plan: &CallPlan, whole: &LocalArray, device: Device) -> Result<LocalArray> {
    let from = whole.device();
    if from.kind == device.kind && plan.backend.shares_memory(from, device) {
        return Ok(whole.clone());
    }
    let mut copy = plan.backend.alloc(device, whole.dtype(), whole.shape())?;
    if from.kind == device.kind {
        let pieces = [(whole.clone(), SmallVec::from_elem(0, whole.shape().len()))];
        plan.backend.copy(&mut [Move { op, pieces: &pieces, into: &mut copy }])?;
    } else {
        let mut bytes = host_bytes(whole.bytes())?;
        crate::backend::backend_of(from.kind)?.read(whole, &mut bytes)?;
        plan.backend.write(&bytes, &mut copy)?;
    }
    Ok(copy)
}

/// A number on every device; where its row is Partial, only the first device along those axes holds it.
fn number(plan: &CallPlan, operand: usize, value: Scalar) -> Result<LocalArrays> {
    let Some(layout) = plan.operands.get(operand) else { bail!(Internal, "no operand {operand}") };
    let bytes_of = |value: Scalar| {
        value.to_bytes(layout.dtype()).ok_or_else(|| {
            Error::new(ErrorKind::DType, format!("the number {value} is no {}", layout.dtype()))
                .with_fix("use a number of the tensor's dtype")
        })
    };
    let own = bytes_of(value)?;
    let same = !layout.places().iter().any(|place| place.is_partial());
    let mut arrays = LocalArrays::new();
    for (position, device) in plan.positions.iter().zip(&plan.devices) {
        let twin = arrays
            .last()
            .filter(|last: &&LocalArray| same && plan.backend.shares_memory(last.device(), *device));
        if let Some(twin) = twin {
            let twin = twin.clone();
            arrays.push(twin);
            continue;
        }
        let others = layout
            .places()
            .iter()
            .enumerate()
            .find(|(axis, place)| place.is_partial() && plan.mesh.coord(*position, *axis) != 0);
        let mut array = plan.backend.alloc(*device, layout.dtype(), layout.shape())?;
        match others.and_then(|(_, place)| place.reduce_op()) {
            Some(op) => plan.backend.write(&bytes_of(op.identity(layout.dtype()))?, &mut array)?,
            None => plan.backend.write(&own, &mut array)?,
        }
        arrays.push(array);
    }
    Ok(arrays)
}

/// The buffers that the op writes, with their local arrays taken out.
type Written<'a> = SmallVec<[(&'a mut TensorBuffer, LocalArrays); 1]>;

/// The local arrays of the results: the outer list is by result, the inner by position.
type Outputs = SmallVec<[LocalArrays; 2]>;

/// Runs the kernels on the inputs, and on what the buffers among the operands hold, which goes back to them on all ways out.
fn executed(
    def: &'static OpDef,
    plan: &CallPlan,
    operands: &mut [Operand<'_>],
    inputs: &Inputs<'_>,
    args: &dyn Any,
    varies: Varies,
    outputs: &mut Outputs,
) -> Result<()> {
    let mut written: Written<'_> = SmallVec::new();
    for operand in operands {
        if let Operand::Written(buffer) = operand {
            let shards = buffer.take();
            written.push((buffer, shards));
        }
    }
    let _uneven = Uneven(UNEVEN.replace(plan.uneven));
    let outcome = execute(def, plan, inputs, &mut written, args, outputs);
    let outcome = outcome.and_then(|()| check(plan, outputs));
    while let Some((buffer, shards)) = written.pop() {
        buffer.put(shards, varies);
    }
    outcome
}

/// Runs the kernels; what they make is added to `outputs`.
fn execute(
    def: &'static OpDef,
    plan: &CallPlan,
    inputs: &Inputs<'_>,
    written: &mut Written<'_>,
    args: &dyn Any,
    outputs: &mut Outputs,
) -> Result<()> {
    if !plan.staged.is_empty() {
        let mut cx = StageCx::new(
            plan.backend.as_ref(),
            def.name,
            &plan.positions,
            &plan.operands,
            &plan.results,
            &plan.staged,
        )
        .uncounted();
        let shards: SmallVec<[LocalArrays; 4]> = inputs.arrays().cloned().collect();
        let staged = guarded("the op's code", || {
            (def.stages)(&mut cx, Grouped::new(&shards, Groups(&plan.groups)), args)
        })?;
        outputs.extend(staged);
        return Ok(());
    }
    for _ in &plan.results {
        outputs.push(LocalArrays::new());
    }
    // The last launches of kernels with one result may wait for each other; buffers are written where they stand.
    let joins = written.is_empty() && plan.positions.len() > 1 && outputs.len() == 1;
    let mut together = Together::default();
    let mut made = LocalArrays::new();
    for (i, (position, device)) in plan.positions.iter().zip(&plan.devices).enumerate() {
        let twin = plan.twins.get(i).copied().unwrap_or(i);
        if twin != i && written.is_empty() && inputs.are_shared(i, twin) {
            if !together.is_empty() {
                run_waiting(def, plan, &mut together, outputs)?;
            }
            for output in outputs.iter_mut() {
                if let Some(done) = output.get(twin).cloned() {
                    output.push(done);
                }
            }
            continue;
        }
        let mut arrays: SmallVec<[&LocalArray; 4]> = SmallVec::new();
        for of_operand in inputs.arrays() {
            if let Some(array) = of_operand.get(i) {
                arrays.push(array);
            }
        }
        let mut cx =
            KernelCx::new(plan.backend.as_ref(), def.name, *device, *position, &plan.operands, &plan.results);
        if joins {
            cx.join(&mut together);
        }
        for (_, shards) in written.iter_mut() {
            match shards.get_mut(i) {
                Some(array) if array.repeats() => *array = spread_out(def.name, plan, array)?,
                Some(_) => {}
                None => bail!(Internal, "a buffer has no shard for device {position}"),
            }
        }
        // Taken out, so that the kernel is the only holder where nobody has a snapshot; nothing fails until they are back.
        let mut own: SmallVec<[LocalArray; 1]> = SmallVec::new();
        for (_, shards) in written.iter_mut() {
            own.push(shards.remove(i));
        }
        let outcome = guarded("the op's code", || {
            (plan.kernel)(&mut cx, Grouped::new(&arrays, Groups(&plan.groups)), &mut own, args, &mut made)
        });
        for (_, shards) in written.iter_mut().rev() {
            if let Some(array) = own.pop() {
                shards.insert(i, array);
            }
        }
        outcome?;
        if cx.waits() {
            together.take(def.name, &mut made)?;
            continue;
        }
        if !together.is_empty() {
            run_waiting(def, plan, &mut together, outputs)?;
        }
        if made.len() != outputs.len() {
            bail!(
                Kernel,
                "the kernel gave {} results, the op is declared with {}",
                made.len(),
                outputs.len()
            );
        }
        for output in outputs.iter_mut().rev() {
            if let Some(array) = made.pop() {
                output.push(array);
            }
        }
    }
    if together.is_empty() { Ok(()) } else { run_waiting(def, plan, &mut together, outputs) }
}

/// Runs the launches that wait, and adds what they make to the one result.
#[inline(never)]
fn run_waiting(
    def: &'static OpDef,
    plan: &CallPlan,
    together: &mut Together,
    outputs: &mut Outputs,
) -> Result<()> {
    let Some(output) = outputs.first_mut() else { return Ok(()) };
    guarded("the backend", || together.run(plan.backend.as_ref(), def.name, output))
}

/// A copy in which every element has memory of its own: a write to one must not be seen at others.
fn spread_out(op: &'static str, plan: &CallPlan, array: &LocalArray) -> Result<LocalArray> {
    let mut copy = plan.backend.alloc(array.device(), array.dtype(), array.shape())?;
    let pieces = [(array.clone(), SmallVec::from_elem(0, array.shape().len()))];
    plan.backend.copy(&mut [Move { op, pieces: &pieces, into: &mut copy }])?;
    Ok(copy)
}

/// Every shard has the size of its label: a rule that says otherwise is wrong, and must not go on silently.
fn check(plan: &CallPlan, outputs: &Outputs) -> Result<()> {
    if outputs.len() != plan.results.len() {
        bail!(
            Kernel,
            "the op's code gave {} results, the op is declared with {}",
            outputs.len(),
            plan.results.len()
        );
    }
    for ((layout, shapes), arrays) in plan.results.iter().zip(&plan.shapes).zip(outputs) {
        if arrays.len() != plan.positions.len() {
            bail!(Kernel, "{} shards were made for {} devices", arrays.len(), plan.positions.len());
        }
        for ((array, shape), position) in arrays.iter().zip(shapes).zip(plan.positions.iter()) {
            let fits =
                shape.as_ref().is_none_or(|shape| shape == array.shape()) && array.dtype() == layout.dtype();
            if !fits {
                let want = shape.clone().unwrap_or_default();
                bail!(
                    Kernel,
                    "device {position} made {}{} where its share of {layout} is {}{want}: the rule or the kernel is wrong; check_rule finds which",
                    array.dtype(),
                    array.shape(),
                    layout.dtype()
                );
            }
        }
    }
    Ok(())
}
