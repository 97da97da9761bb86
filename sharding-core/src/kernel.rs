//! What a local kernel gets: the primitives, and where its shards lie in the whole.

use crate::backend::{
    Backend, BinaryOp, Expr, FusedOp, Gather, IndexMap, Iota, LocalArray, LocalArrays, LocalMeta, Move, Node,
    Primitive, Random, Reduce, UnaryOp, Work, lower,
};
use crate::trace::{self, Seen};
use crate::{
    DType, Device, Error, ErrorKind, Place, ReduceOp, Region, Result, Scalar, Shape, TensorLayout, broadcast,
};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// One device's view of a call.
///
/// A body written on these methods runs on every backend. Plain arguments of an op are global, shards are local: the
/// layouts here say how they relate.
pub struct KernelCx<'a> {
    backend: &'a dyn Backend,
    op: &'static str,
    device: Device,
    position: usize,
    operands: &'a [TensorLayout],
    results: &'a [TensorLayout],
    together: Option<&'a mut Together>,
    /// Whether the next launch is the kernel's last: see [`last`](Self::last).
    last: bool,
    /// Whether that launch was made.
    ended: bool,
    /// Whether it waits for those of other devices.
    waits: bool,
}

impl<'a> KernelCx<'a> {
    /// The context of one device; `operands` are the layouts after redistribution, flat.
    pub fn new(
        backend: &'a dyn Backend,
        op: &'static str,
        device: Device,
        position: usize,
        operands: &'a [TensorLayout],
        results: &'a [TensorLayout],
    ) -> Self {
        Self {
            backend,
            op,
            device,
            position,
            operands,
            results,
            together: None,
            last: false,
            ended: false,
            waits: false,
        }
    }

    /// Lets the last launch wait for those of other devices: [`Together::run`] runs it.
    pub(crate) fn join(&mut self, together: &'a mut Together) {
        self.together = Some(together);
    }

    /// Whether the last launch of the kernel waits.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Promises that the next launch is the last thing that the kernel does, and that the kernel's one result is what comes of
    /// it, as it is or as a view of other shape: `cx.last().dot(a, b)`. The launch may then wait for those of other devices,
    /// and run with them as one, so that kernels too small to be shared by threads run side by side. Until then the array
    /// has no elements.
    ///
    /// Where the launch is one of several that a method needs, nothing waits.
    pub fn last(&mut self) -> &mut Self {
        self.last = true;
        self
    }

    /// The op that runs.
    pub fn op(&self) -> &'static str {
        self.op
    }
    /// The backend, for kernels of one backend.
    pub fn backend(&self) -> &'a dyn Backend {
        self.backend
    }
    /// The device.
    pub fn device(&self) -> Device {
        self.device
    }
    /// Its row-major position in the mesh.
    pub fn position(&self) -> usize {
        self.position
    }
    /// The layout of a flat operand as this kernel gets it.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the op has no such operand.
    pub fn operand(&self, i: usize) -> Result<&'a TensorLayout> {
        self.operands.get(i).ok_or_else(|| self.internal(format!("there is no operand {i}")))
    }
    /// The layout of a result.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the op has no such result.
    pub fn result(&self, i: usize) -> Result<&'a TensorLayout> {
        self.results.get(i).ok_or_else(|| self.internal(format!("there is no result {i}")))
    }
    /// The global index ranges of an operand that this device holds, per tensor axis.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the op has no such operand.
    pub fn operand_region(&self, i: usize) -> Result<Region> {
        Ok(self.operand(i)?.region(self.position))
    }
    /// The global index ranges of a result that this device makes, per tensor axis.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the op has no such result.
    pub fn result_region(&self, i: usize) -> Result<Region> {
        Ok(self.result(i)?.region(self.position))
    }
    /// The shape of a result on this device.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the op has no such result.
    pub fn result_shape(&self, i: usize) -> Result<Shape> {
        Ok(self.result(i)?.local_shape(self.position))
    }
    /// Whether this device is the one that holds the value of a result's Partial axes: the first along each of them.
    /// Work that must count once (a bias) is done there only.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the op has no such result.
    pub fn is_first_part(&self, result: usize) -> Result<bool> {
        let layout = self.result(result)?;
        let mesh = layout.mesh();
        let partial =
            |(axis, place): (usize, &Place)| !place.is_partial() || mesh.coord(self.position, axis) == 0;
        Ok(layout.places().iter().enumerate().all(partial))
    }

    fn internal(&self, message: String) -> Error {
        Error::new(ErrorKind::Internal, message).with_op(self.op)
    }

    fn misfit(&self, message: String) -> Error {
        Error::new(ErrorKind::Kernel, message).with_op(self.op)
    }

    /// Runs any primitive whose result has this dtype and shape.
    ///
    /// # Errors
    /// What the backend says.
    pub fn launch(
        &mut self,
        primitive: &Primitive,
        inputs: &[&LocalArray],
        dtype: DType,
        shape: &Shape,
    ) -> Result<LocalArray> {
        if self.ended {
            return Err(self.goes_on());
        }
        if self.last {
            (self.last, self.ended) = (false, true);
            if self.together.is_some() && may_wait(inputs, dtype, shape) {
                return self.wait(primitive, inputs, dtype, shape);
            }
        }
        let _span = tracing::trace_span!(
            "kernel",
            op = self.op,
            name = %Named(primitive),
            device = %self.device,
            inputs = %Inputs(inputs),
            result = %Typed(dtype, shape),
            bytes = touched(inputs, dtype, shape),
        )
        .entered();
        let _seen = Seen::new(|| {
            trace::kernel(self.op, trace::primitive_name(primitive), self.device, inputs, (dtype, shape))
        });
        let mut output = self.backend.alloc(self.device, dtype, shape)?;
        let outputs = std::slice::from_mut(&mut output);
        self.backend.launch(primitive, &mut [Work { op: self.op, device: self.device, inputs, outputs }])?;
        Ok(output)
    }

    /// Leaves a launch to [`Together::run`].
    #[inline(never)]
    fn wait(
        &mut self,
        primitive: &Primitive,
        inputs: &[&LocalArray],
        dtype: DType,
        shape: &Shape,
    ) -> Result<LocalArray> {
        let output = self.backend.alloc(self.device, dtype, shape)?;
        if let Some(together) = &mut self.together {
            together.add(primitive, self.device, inputs, output.clone());
            self.waits = true;
        }
        Ok(output)
    }

    /// What a kernel is told that goes on after its last launch.
    #[cold]
    fn goes_on(&self) -> Error {
        self.misfit("the kernel goes on after a launch that it called its last".to_owned())
            .with_fix("call cx.last() before the last launch only")
    }

    /// An elementwise expression over inputs that broadcast.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] if dtypes or shapes do not fit each other, else what the backend says.
    pub fn map(&mut self, expr: &Expr, inputs: &[&LocalArray]) -> Result<LocalArray> {
        let dtypes: SmallVec<[DType; 4]> = inputs.iter().map(|x| x.dtype()).collect();
        let dtype = expr.dtypes(&dtypes).and_then(|all| all.last().copied());
        let dtype = dtype.ok_or_else(|| {
            self.misfit(format!("the expression {expr:?} does not fit inputs of {dtypes:?}"))
        })?;
        self.map_to(expr, inputs, dtype)
    }

    fn map_to(&mut self, expr: &Expr, inputs: &[&LocalArray], dtype: DType) -> Result<LocalArray> {
        let mut shape = inputs.first().map_or_else(Shape::default, |x| x.shape().clone());
        for x in inputs.iter().skip(1) {
            if *x.shape() != shape {
                shape = broadcast(&shape, x.shape()).ok_or_else(|| {
                    self.misfit(format!("local shapes {shape} and {} do not broadcast", x.shape()))
                })?;
            }
        }
        self.launch(&Primitive::Map(expr.clone()), inputs, dtype, &shape)
    }

    /// `op(x)` elementwise.
    ///
    /// # Errors
    /// What the backend says.
    pub fn unary(&mut self, op: UnaryOp, x: &LocalArray) -> Result<LocalArray> {
        let expr = Expr::unary(op, Expr::input(0));
        self.map_to(&expr, &[x], x.dtype())
    }

    /// `op(a, b)` elementwise, broadcasting.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] if dtypes or shapes do not fit each other, else what the backend says.
    pub fn binary(&mut self, op: BinaryOp, a: &LocalArray, b: &LocalArray) -> Result<LocalArray> {
        if a.dtype() != b.dtype() {
            return Err(self.misfit(format!("{op:?} of {} and {}", a.dtype(), b.dtype())));
        }
        let dtype = if op.is_comparison() { DType::Bool } else { a.dtype() };
        self.map_to(binary_expr(op), &[a, b], dtype)
    }

    /// An array of one value.
    ///
    /// # Errors
    /// What the backend says.
    pub fn fill(&mut self, value: Scalar, dtype: DType, shape: &Shape) -> Result<LocalArray> {
        self.launch(&Primitive::Map(Expr::constant(value, dtype)), &[], dtype, shape)
    }

    /// Combines the elements of `axes` (any order); they stay with extent 1.
    ///
    /// # Errors
    /// What the backend says.
    pub fn reduce(&mut self, op: ReduceOp, x: &LocalArray, axes: &[usize]) -> Result<LocalArray> {
        let mut axes: SmallVec<[usize; 4]> = axes.into();
        axes.sort_unstable();
        axes.dedup();
        let shape = axes.iter().fold(x.shape().clone(), |shape, axis| shape.with_extent(*axis, 1));
        self.launch(&Primitive::Reduce(Reduce { op, axes }), &[x], x.dtype(), &shape)
    }

    /// Batched matrix product `[.., m, k]` by `[.., k, n]`.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] if shapes or dtypes do not fit each other, else what the backend says.
    pub fn dot(&mut self, a: &LocalArray, b: &LocalArray) -> Result<LocalArray> {
        let (sa, sb) = (a.shape(), b.shape());
        let fit = || {
            let ([batch_a @ .., m, k], [batch_b @ .., l, n]) = (&**sa, &**sb) else { return None };
            if k != l || a.dtype() != b.dtype() {
                return None;
            }
            if batch_a == batch_b {
                return Some(sa.with_extent(sa.len() - 1, *n));
            }
            Some(broadcast(batch_a, batch_b)?.iter().chain([m, n]).copied().collect::<Shape>())
        };
        let shape = fit().ok_or_else(|| {
            self.misfit(format!("no matrix product of {}{sa} and {}{sb}", a.dtype(), b.dtype()))
        })?;
        self.launch(&Primitive::Dot, &[a, b], a.dtype(), &shape)
    }

    /// Rows of a table by index; see [`Gather`].
    ///
    /// # Errors
    /// What the backend says, above all for an index out of range.
    pub fn gather(&mut self, gather: Gather, table: &LocalArray, indices: &LocalArray) -> Result<LocalArray> {
        let axis = gather.axis;
        let (before, after) = (table.shape().iter().take(axis), table.shape().iter().skip(axis + 1));
        let shape: Shape = before.chain(indices.shape().iter()).chain(after).copied().collect();
        self.launch(&Primitive::Gather(gather), &[table, indices], table.dtype(), &shape)
    }

    /// Copied elements of the inputs; see [`IndexMap`].
    ///
    /// # Errors
    /// What the backend says.
    pub fn copy(&mut self, map: IndexMap, inputs: &[&LocalArray]) -> Result<LocalArray> {
        let dtype =
            inputs.first().map(|x| x.dtype()).ok_or_else(|| self.misfit("a copy of nothing".to_owned()))?;
        let shape = map.shape.clone();
        self.launch(&Primitive::Copy(map), inputs, dtype, &shape)
    }

    /// The same elements under another shape: a view where the array is contiguous, else a copy.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] if the numbers of elements differ, else what the backend says.
    pub fn reshape(&mut self, x: &LocalArray, shape: &Shape) -> Result<LocalArray> {
        if x.elements() != shape.elements() {
            return Err(self.misfit(format!("no reshape of {} elements to {shape}", x.elements())));
        }
        match x.reshaped(shape) {
            Some(view) => Ok(view),
            None => self.copy(IndexMap::reshape(shape), &[x]),
        }
    }

    /// `start + step * (first + index)` along an axis of an array of this shape.
    ///
    /// # Errors
    /// What the backend says.
    pub fn iota(&mut self, iota: Iota, shape: &Shape) -> Result<LocalArray> {
        let dtype = iota.dtype;
        self.launch(&Primitive::Iota(iota), &[], dtype, shape)
    }

    /// Random elements of a whole; see [`Random`].
    ///
    /// # Errors
    /// What the backend says.
    pub fn random(&mut self, random: Random) -> Result<LocalArray> {
        let (dtype, shape) = (random.dtype, random.shape());
        self.launch(&Primitive::Random(random), &[], dtype, &shape)
    }

    /// A fused kernel; its lowering on a backend that does not have it.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] for inputs that it does not take, else what the backend says.
    pub fn fused(&mut self, op: FusedOp, inputs: &[&LocalArray]) -> Result<LocalArray> {
        let metas: SmallVec<[&LocalMeta; 4]> = inputs.iter().map(|x| x.meta()).collect();
        let (dtype, shape) = op.result(&metas).ok_or_else(|| {
            let inputs: Vec<String> = inputs.iter().map(|x| format!("{}{}", x.dtype(), x.shape())).collect();
            self.misfit(format!("{op:?} does not take {}", inputs.join(", ")))
        })?;
        let metas: SmallVec<[LocalMeta; 4]> = metas.into_iter().cloned().collect();
        let last = std::mem::take(&mut self.last);
        if !self.backend.supports(&Primitive::Fused(op.clone()), &metas).is_yes() {
            return lower(self, &op, inputs);
        }
        self.last = last;
        self.launch(&Primitive::Fused(op), inputs, dtype, &shape)
    }

    /// Writes `source` into a written operand so that its first element lands at the local index `at`.
    ///
    /// # Errors
    /// What the backend says.
    pub fn store(&mut self, into: &mut LocalArray, source: &LocalArray, at: &[usize]) -> Result<()> {
        if self.ended {
            return Err(self.goes_on());
        }
        let (dtype, shape) = (source.dtype(), source.shape());
        let _span = tracing::trace_span!(
            "kernel",
            op = self.op,
            name = "store",
            device = %self.device,
            inputs = %Inputs(&[source]),
            result = %Typed(dtype, shape),
            bytes = touched(&[source], dtype, shape),
        )
        .entered();
        let _seen =
            Seen::new(|| trace::kernel(self.op, "store".to_owned(), self.device, &[source], (dtype, shape)));
        let pieces = [(source.clone(), SmallVec::from_slice(at))];
        self.backend.copy(&mut [Move { op: self.op, pieces: &pieces, into }])
    }
}

/// Whether a last launch is worth waiting, and nobody watches: who does wants to see each kernel while it runs.
#[inline(never)]
fn may_wait(inputs: &[&LocalArray], dtype: DType, shape: &Shape) -> bool {
    touched(inputs, dtype, shape) >= WORTH
        && !crate::scope::is_watched()
        && !tracing::enabled!(tracing::Level::TRACE)
}

/// Kernels that touch fewer bytes run at once: whatever they do, to keep it in mind costs more than waiting can bring.
const WORTH: usize = 1 << 14;

/// The last launches of a call's kernels, which run as one where they are of the same primitive.
#[derive(Default)]
pub(crate) struct Together(Vec<Waiting>);

/// A launch that waits, and what it makes.
struct Waiting {
    primitive: Primitive,
    device: Device,
    inputs: SmallVec<[LocalArray; 3]>,
    output: LocalArray,
    /// How the kernel's result lies in the output; `None` until the kernel has given it.
    result: Option<LocalMeta>,
}

impl Together {
    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, primitive: &Primitive, device: Device, inputs: &[&LocalArray], output: LocalArray) {
        let inputs = inputs.iter().map(|input| (*input).clone()).collect();
        self.0.push(Waiting { primitive: primitive.clone(), device, inputs, output, result: None });
    }

    /// Takes what a kernel whose last launch waits has given.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] if it is not one view of what the launch makes.
    pub(crate) fn take(&mut self, op: &'static str, made: &mut LocalArrays) -> Result<()> {
        let given = match (self.0.last_mut(), &**made) {
            (Some(waiting), [array])
                if std::ptr::addr_eq(Arc::as_ptr(array.storage()), Arc::as_ptr(waiting.output.storage())) =>
            {
                waiting.result = Some(array.meta().clone());
                true
            }
            _ => false,
        };
        made.clear();
        if given {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Kernel,
            "the kernel does not give what comes of the launch it called its last",
        )
        .with_op(op)
        .with_fix("call cx.last() only before the launch that makes the kernel's one result"))
    }

    /// Runs what waits, in the order in which it came, and adds the results.
    ///
    /// # Errors
    /// What the backend says.
    pub(crate) fn run(
        &mut self,
        backend: &dyn Backend,
        op: &'static str,
        results: &mut LocalArrays,
    ) -> Result<()> {
        for alike in self.0.chunk_by_mut(|a, b| a.primitive == b.primitive) {
            let mut reads: SmallVec<[SmallVec<[&LocalArray; 3]>; 2]> = SmallVec::with_capacity(alike.len());
            let mut writes: SmallVec<[(Device, &mut [LocalArray]); 2]> = SmallVec::with_capacity(alike.len());
            let mut primitive = None;
            for Waiting { primitive: this, device, inputs, output, .. } in alike {
                primitive = Some(&*this);
                reads.push(inputs.iter().collect());
                writes.push((*device, std::slice::from_mut(output)));
            }
            let mut work: SmallVec<[Work<'_>; 2]> = SmallVec::with_capacity(reads.len());
            for (inputs, (device, outputs)) in reads.iter().zip(writes) {
                work.push(Work { op, device, inputs, outputs });
            }
            if let Some(primitive) = primitive {
                backend.launch(primitive, &mut work)?;
            }
        }
        for Waiting { output, result, .. } in self.0.drain(..) {
            results.push(match result {
                Some(meta) => LocalArray::new(meta, output.storage().clone()),
                None => output,
            });
        }
        Ok(())
    }
}

/// The name of a primitive as a field of a span.
struct Named<'a>(&'a Primitive);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&trace::primitive_name(self.0))
    }
}

/// dtypes and shapes as a field of a span.
struct Inputs<'a>(&'a [&'a LocalArray]);

impl fmt::Display for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, x) in self.0.iter().enumerate() {
            write!(f, "{}{}{}", if i == 0 { "" } else { ", " }, x.dtype(), x.shape())?;
        }
        Ok(())
    }
}

/// dtype and shape as a field of a span.
struct Typed<'a>(DType, &'a Shape);

impl fmt::Display for Typed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, self.1)
    }
}

/// Bytes that a kernel reads and writes.
fn touched(inputs: &[&LocalArray], dtype: DType, shape: &Shape) -> usize {
    let read = inputs.iter().fold(0_usize, |sum, x| sum.saturating_add(x.bytes()));
    read.saturating_add(shape.elements().saturating_mul(dtype.size()))
}

/// Constant expressions, so that the common ops build nothing per call.
fn binary_expr(op: BinaryOp) -> &'static Expr {
    macro_rules! table {
        ($($name:ident),*) => {
            match op { $(BinaryOp::$name => {
                static EXPR: Expr = Expr::from_static(&[Node::Input(0), Node::Input(1), Node::Binary(BinaryOp::$name, 0, 1)]);
                &EXPR
            })* }
        };
    }
    table!(Add, Sub, Mul, Div, Pow, Max, Min, Eq, Lt, Le, And, Or)
}
