//! Elementwise expressions, evaluated step by step on chunks that stay in the cache.

use crate::collective;
use crate::copy::{Walk, transposes};
use crate::device::{self, is_large, vectorize};
use crate::element::{Cell, Item, Narrow, Truth, is_narrow, with_lane, with_narrow};
use crate::memory::{ALIGN, Beside, staged};
use crate::storage::{View, alloc, as_slots, dense, internal, overwrite, unsupported, with_word};
use bytemuck::{cast_slice, cast_slice_mut};
use sharding_core::backend::{BinaryOp, Expr, LocalArray, LocalMeta, Node, Support, UnaryOp};
use sharding_core::{DType, Error, ErrorKind, Result, Shape};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// Elements per chunk where intermediate results are kept: some of them fit the first cache together.
const CHUNK: usize = 1024;
/// Elements per task of the pool.
const TASK: usize = 32 * CHUNK;

/// An operand of an elementwise step: elements, or one for all.
#[derive(Clone, Copy)]
pub(crate) enum Lane<'a, T> {
    Slice(&'a [T]),
    Splat(T),
}

/// A [`Lane`] of any type that is computed in.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Truth(Lane<'a, Truth>),
    Int(Lane<'a, i64>),
    UInt(Lane<'a, u64>),
    Float(Lane<'a, f32>),
    Double(Lane<'a, f64>),
}

/// Runs a body with `$T` as the type of a value and `$lane` as its lane.
macro_rules! with_value {
    ($value:expr, $T:ident, $lane:ident => $body:expr) => {
        match $value {
            Value::Truth($lane) => {
                type $T = Truth;
                $body
            }
            Value::Int($lane) => {
                type $T = i64;
                $body
            }
            Value::UInt($lane) => {
                type $T = u64;
                $body
            }
            Value::Float($lane) => {
                type $T = f32;
                $body
            }
            Value::Double($lane) => {
                type $T = f64;
                $body
            }
        }
    };
}

/// Room for intermediate results of every type.
#[derive(Default)]
pub(crate) struct Room<'a>(&'a mut [u64]);

impl<'a> Room<'a> {
    /// Takes `len` elements out of the room.
    pub(crate) fn take<T: Item>(&mut self, len: usize) -> Option<&'a mut [T]> {
        let (taken, rest) = std::mem::take(&mut self.0).split_at_mut_checked(words::<T>(len))?;
        self.0 = rest;
        cast_slice_mut(taken).get_mut(..len)
    }
}

/// How many words of 8 bytes hold `len` elements.
const fn words<T>(len: usize) -> usize {
    (len * size_of::<T>()).div_ceil(8)
}

thread_local! {
    /// Memory for [`Room`], kept from call to call.
    static SCRATCH: RefCell<Vec<u64>> = RefCell::default();
}

/// The first `len` words of the memory for [`Room`].
fn grown(scratch: &mut Vec<u64>, len: usize) -> &mut [u64] {
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    &mut scratch[..len]
}

/// An input of an expression.
enum Source<'a> {
    /// The result's elements in order, or one for all.
    Direct(Value<'a>),
    /// Anything else that is computed as it lies is copied chunk by chunk.
    Strided(Value<'a>, Walk),
    /// What is converted to compute with it, chunk by chunk: the memory of the result's elements in order, or with a walk
    /// over it.
    Narrow(DType, &'a [u8], Option<Walk>),
}

impl<'a> Source<'a> {
    fn new(array: &'a LocalArray, shape: &Shape) -> Result<Self> {
        let dtype = array.dtype();
        if is_narrow(dtype) {
            return with_word!(dtype, W => Self::narrow::<W>(array, shape));
        }
        with_lane!(dtype, T => {
            let view = View::<T>::of(array)?;
            if array.shape() == shape && let Some(elements) = view.dense() {
                return Ok(Source::Direct(T::value(Lane::Slice(elements))));
            }
            let walk = walk(view.meta(), shape)?;
            Ok(match walk.splat() {
                Some(at) => Source::Direct(T::value(Lane::Splat(view.data()[at]))),
                None => Source::Strided(T::value(Lane::Slice(view.data())), walk),
            })
        })
    }

    fn narrow<W: Cell>(array: &'a LocalArray, shape: &Shape) -> Result<Self> {
        let (view, dtype) = (View::<W>::of(array)?, array.dtype());
        if array.shape() == shape
            && let Some(elements) = view.dense()
        {
            return Ok(Source::Narrow(dtype, cast_slice(elements), None));
        }
        let walk = walk(view.meta(), shape)?;
        let Some(at) = walk.splat() else {
            return Ok(Source::Narrow(dtype, cast_slice(view.data()), Some(walk)));
        };
        with_lane!(dtype, T => {
            let mut one = [T::ZERO];
            T::load(dtype, cast_slice(&view.data()[at..=at]), &mut one);
            Ok(Source::Direct(T::value(Lane::Splat(one[0]))))
        })
    }

    /// Whether chunks of it take room.
    fn keeps(&self) -> bool {
        !matches!(self, Source::Direct(_))
    }

    /// Elements `start..start + len` of the result's order.
    fn chunk<'r>(&self, start: usize, len: usize, room: &mut Room<'r>) -> Result<Value<'r>>
    where
        'a: 'r,
    {
        match self {
            Source::Direct(value) => Ok(value.chunk(start, len)),
            Source::Strided(value, walk) => with_value!(value, T, lane => {
                let data = if let Lane::Slice(data) = *lane { data } else { &[] };
                let out = room.take::<T>(CHUNK).ok_or_else(no_room)?;
                walk.read(data, start, &mut out[..len]);
                Ok(T::value(Lane::Slice(&out[..len])))
            }),
            Source::Narrow(dtype, bytes, walk) => with_lane!(*dtype, T => {
                let out = room.take::<T>(CHUNK).ok_or_else(no_room)?;
                let out = &mut out[..len];
                match walk {
                    None => {
                        let size = dtype.size();
                        T::load(*dtype, &bytes[start * size..(start + len) * size], out);
                    }
                    Some(walk) => with_word!(*dtype, W => {
                        let mut read: [W; CHUNK] = [0; CHUNK];
                        walk.read(cast_slice::<u8, W>(bytes), start, &mut read[..len]);
                        T::load(*dtype, cast_slice(&read[..len]), out);
                    }),
                }
                Ok(T::value(Lane::Slice(out)))
            }),
        }
    }
}

fn walk(meta: &LocalMeta, shape: &Shape) -> Result<Walk> {
    Walk::broadcast(&meta.shape, &meta.strides, meta.offset as isize, shape)
        .ok_or_else(|| internal(format!("{} does not broadcast to {shape}", meta.shape)))
}

impl<'a> Value<'a> {
    fn chunk(self, start: usize, len: usize) -> Self {
        with_value!(self, T, lane => match lane {
            Lane::Slice(all) => T::value(Lane::Slice(&all[start..start + len])),
            splat => T::value(splat),
        })
    }
}

fn no_room() -> Error {
    internal("an expression keeps more than was counted")
}

type Values<'a> = SmallVec<[Value<'a>; 8]>;

/// The step of an expression that cannot run, in words.
fn step_error(node: &Node, values: &[Value<'_>]) -> Error {
    let dtype = |i: u8| match values.get(usize::from(i)) {
        Some(value) => with_value!(value, T, _lane => T::DTYPE.name()),
        None => "nothing",
    };
    match *node {
        Node::Unary(op, x) => unsupported(format_args!("{op:?} of {}", dtype(x))),
        Node::Binary(op, a, b) => unsupported(format_args!("{op:?} of {} and {}", dtype(a), dtype(b))),
        ref other => unsupported(format_args!("the step {other:?}")),
    }
}

/// Runs a step whose result has dtype `T`.
fn step<T: Item>(node: &Node, values: &[Value<'_>], out: &mut [MaybeUninit<T>]) -> Result<()> {
    try_step(node, values, out).map_err(|error| error.unwrap_or_else(|| step_error(node, values)))
}

/// As [`step`]; `Err(None)` if there is no such step.
fn try_step<T: Item>(
    node: &Node,
    values: &[Value<'_>],
    out: &mut [MaybeUninit<T>],
) -> Result<(), Option<Error>> {
    let at = |i: u8| values.get(usize::from(i)).ok_or(None);
    let lane = |i: u8| T::lane(at(i)?).ok_or(None);
    let done = match *node {
        Node::Unary(op, x) => T::unary(op, lane(x)?, out),
        Node::Binary(op, a, b) if op.is_comparison() => T::compare(op, at(a)?, at(b)?, out),
        Node::Binary(op, a, b) => {
            let (a, b) = (lane(a)?, lane(b)?);
            if op == BinaryOp::Div && !T::can_divide(b) {
                let error = Error::new(ErrorKind::Kernel, "an integer division by zero");
                return Err(Some(
                    error.with_fix("replace zeros in the divisor first: where_(b.eq(0), 1, b)"),
                ));
            }
            T::binary(op, a, b, out)
        }
        Node::Select(c, a, b) => {
            let c = Truth::lane(at(c)?).ok_or(None)?;
            select(c, lane(a)?, lane(b)?, out);
            true
        }
        Node::Cast(dtype, x) => {
            T::cast(dtype, at(x)?, out);
            true
        }
        _ => false,
    };
    if done { Ok(()) } else { Err(None) }
}

fn select<T: Item>(c: Lane<'_, Truth>, a: Lane<'_, T>, b: Lane<'_, T>, out: &mut [MaybeUninit<T>]) {
    let c = match c {
        Lane::Slice(c) => c,
        Lane::Splat(c) => return apply(if c.holds() { a } else { b }, out, |x| x),
    };
    // Slices of one known length: the loops need no checks of bounds.
    let n = out.len();
    let c = &c[..n];
    match (a, b) {
        (Lane::Slice(a), Lane::Slice(b)) => {
            let (a, b) = (&a[..n], &b[..n]);
            choose(c, out, move |i| a[i], move |i| b[i]);
        }
        (Lane::Slice(a), Lane::Splat(b)) => {
            let a = &a[..n];
            choose(c, out, move |i| a[i], move |_| b);
        }
        (Lane::Splat(a), Lane::Slice(b)) => {
            let b = &b[..n];
            choose(c, out, move |_| a, move |i| b[i]);
        }
        (Lane::Splat(a), Lane::Splat(b)) => choose(c, out, move |_| a, move |_| b),
    }
}

/// `out[i] = if c[i] { a(i) } else { b(i) }`; both sides are read, so that the loop has no branch.
fn choose<T: Item>(c: &[Truth], out: &mut [MaybeUninit<T>], a: impl Fn(usize) -> T, b: impl Fn(usize) -> T) {
    vectorize(
        #[inline(always)]
        move || {
            for (i, (slot, c)) in out.iter_mut().zip(c).enumerate() {
                let (a, b) = (a(i), b(i));
                slot.write(if c.holds() { a } else { b });
            }
        },
    );
}

/// Whether the elements of a step's result may leave the range of a narrow dtype, or have more digits than it.
///
/// Floats keep their digits from step to step: an expression on f16 or bf16 is rounded where it ends, and where it says so.
fn leaves(node: &Node, dtype: DType) -> bool {
    match node {
        Node::Cast(..) => true,
        Node::Unary(..) => dtype.is_integer(),
        Node::Binary(op, ..) => dtype.is_integer() && !matches!(op, BinaryOp::Max | BinaryOp::Min),
        _ => false,
    }
}

/// An expression over the inputs of one launch.
struct Program<'a> {
    nodes: &'a [Node],
    /// The dtype of every step; none where no step but the last computes.
    dtypes: SmallVec<[DType; 8]>,
    sources: SmallVec<[Source<'a>; 4]>,
    /// The words of 8 bytes that a chunk keeps.
    needs: usize,
}

impl<'a> Program<'a> {
    fn new(expr: &'a Expr, inputs: &'a [&'a LocalArray], out: &LocalArray) -> Result<Self> {
        let nodes = expr.nodes();
        let shape = out.shape();
        let sources =
            inputs.iter().map(|input| Source::new(input, shape)).collect::<Result<SmallVec<[_; 4]>>>()?;
        let mut needs = 0;
        let mut keep = |dtype: DType| -> Result<()> {
            needs += with_lane!(dtype, T => words::<T>(CHUNK));
            Ok(())
        };
        for (source, input) in sources.iter().zip(inputs) {
            if source.keeps() {
                keep(input.dtype())?;
            }
        }
        // The last step writes into the result; those of leaves are kept elsewhere.
        let inner = nodes.split_last().map_or(&[][..], |(_, inner)| inner);
        let mut known = SmallVec::new();
        if inner.iter().any(|node| !matches!(node, Node::Input(_) | Node::Const(..))) {
            let dtypes: SmallVec<[DType; 4]> = inputs.iter().map(|input| input.dtype()).collect();
            known.extend(expr.dtypes(&dtypes).ok_or_else(|| unsupported(format_args!("{expr:?}")))?);
            for (node, dtype) in inner.iter().zip(&known) {
                if !matches!(node, Node::Input(_) | Node::Const(..)) {
                    keep(*dtype)?;
                }
            }
        }
        // Narrow results are computed beside the place to which they are converted.
        if is_narrow(out.dtype()) {
            keep(out.dtype())?;
        }
        Ok(Self { nodes, dtypes: known, sources, needs })
    }

    /// Writes elements `start..start + out.len()` of the result; every one of them, if it gives `Ok`.
    fn run<T: Item>(&self, start: usize, out: &mut [MaybeUninit<T>]) -> Result<()> {
        if self.needs == 0 {
            return self.chunk(start, out, &mut Room::default());
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let scratch = grown(scratch, self.needs);
            out.chunks_mut(CHUNK)
                .enumerate()
                .try_for_each(|(i, out)| self.chunk(start + i * CHUNK, out, &mut Room(scratch)))
        })
    }

    /// As [`run`](Self::run), for a result that is converted from what it is computed in.
    fn run_narrow<S: Narrow>(&self, start: usize, out: &mut [MaybeUninit<S>]) -> Result<()> {
        SCRATCH.with_borrow_mut(|scratch| {
            let scratch = grown(scratch, self.needs);
            out.chunks_mut(CHUNK).enumerate().try_for_each(|(i, out)| {
                let mut room = Room(scratch);
                let computed = room.take::<S::Lane>(CHUNK).ok_or_else(no_room)?;
                let computed = &mut computed[..out.len()];
                // SAFETY: `chunk` only puts values into the slots.
                self.chunk(start + i * CHUNK, unsafe { as_slots(computed) }, &mut room)?;
                apply(Lane::Slice(computed), out, S::store);
                Ok(())
            })
        })
    }

    fn chunk<'r, T: Item>(&self, start: usize, out: &mut [MaybeUninit<T>], room: &mut Room<'r>) -> Result<()>
    where
        'a: 'r,
    {
        let len = out.len();
        let mut inputs: SmallVec<[Value<'r>; 4]> = SmallVec::new();
        for source in &self.sources {
            inputs.push(source.chunk(start, len, room)?);
        }
        let mut values: Values<'r> = SmallVec::new();
        let Some((last, inner)) = self.nodes.split_last() else {
            return Err(unsupported("an expression without steps"));
        };
        for (i, node) in inner.iter().enumerate() {
            let value = match leaf(node, &inputs)? {
                Some(value) => value,
                None => {
                    let dtype = *self.dtypes.get(i).ok_or_else(|| step_error(node, &values))?;
                    with_lane!(dtype, X => {
                        let kept = room.take::<X>(CHUNK).ok_or_else(no_room)?;
                        let kept = &mut kept[..len];
                        // SAFETY: `step` only puts values into the slots.
                        step::<X>(node, &values, unsafe { as_slots(kept) })?;
                        if is_narrow(dtype) && leaves(node, dtype) {
                            X::settle(dtype, kept);
                        }
                        X::value(Lane::Slice(kept))
                    })
                }
            };
            values.push(value);
        }
        match leaf(last, &inputs)? {
            Some(value) => {
                let lane = T::lane(&value).ok_or_else(|| step_error(last, &values))?;
                apply(lane, out, |x| x);
                Ok(())
            }
            None => step(last, &values, out),
        }
    }
}

/// The value of a step that computes nothing.
fn leaf<'r>(node: &Node, inputs: &[Value<'r>]) -> Result<Option<Value<'r>>> {
    match *node {
        Node::Input(i) => match inputs.get(usize::from(i)) {
            Some(value) => Ok(Some(*value)),
            None => Err(internal(format!("an expression reads input {i} of {}", inputs.len()))),
        },
        Node::Const(scalar, dtype) => with_lane!(dtype, T => {
            // Of halves in full: an expression on them is rounded where it ends.
            let fits = !is_narrow(dtype) || scalar.to_bytes(dtype).is_some();
            let value = if fits { T::from_scalar(scalar) } else { None };
            let value = value.ok_or_else(|| unsupported(format_args!("the constant {scalar} as {dtype}")))?;
            Ok(Some(T::value(Lane::Splat(value))))
        }),
        _ => Ok(None),
    }
}

/// `out[i] = f(x[i])` for every element, vectorised.
#[inline]
pub(crate) fn apply<T: Copy, R: Copy>(x: Lane<'_, T>, out: &mut [MaybeUninit<R>], f: impl Fn(T) -> R) {
    match x {
        // A loop, not `for_each`: its closure would be a call of its own where `f` is long. It owns what it captures, as
        // do all closures here: what is behind a reference may change with every store, and keeps loops from vectorising.
        Lane::Slice(x) => vectorize(
            #[inline(always)]
            move || {
                for (slot, x) in out.iter_mut().zip(x) {
                    slot.write(f(*x));
                }
            },
        ),
        Lane::Splat(x) => out.fill(MaybeUninit::new(f(x))),
    }
}

/// `out[i] = f(a[i], b[i])` for every element, vectorised.
#[inline]
pub(crate) fn zip<T: Copy, R: Copy>(
    a: Lane<'_, T>,
    b: Lane<'_, T>,
    out: &mut [MaybeUninit<R>],
    f: impl Fn(T, T) -> R,
) {
    match (a, b) {
        (Lane::Slice(a), Lane::Slice(b)) => vectorize(
            #[inline(always)]
            move || {
                for ((slot, a), b) in out.iter_mut().zip(a).zip(b) {
                    slot.write(f(*a, *b));
                }
            },
        ),
        (a, Lane::Splat(b)) => apply(
            a,
            out,
            #[inline(always)]
            move |a| f(a, b),
        ),
        (Lane::Splat(a), b) => apply(
            b,
            out,
            #[inline(always)]
            move |b| f(a, b),
        ),
    }
}

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(expr: &Expr, inputs: &[LocalMeta]) -> Support {
    match check(expr, &inputs.iter().map(|input| input.dtype).collect::<SmallVec<[DType; 4]>>()) {
        Ok(()) => Support::Yes,
        Err(error) => Support::No(error.message().to_owned()),
    }
}

fn check(expr: &Expr, inputs: &[DType]) -> Result<()> {
    let dtypes = expr.dtypes(inputs).ok_or_else(|| unsupported(format_args!("{expr:?} of {inputs:?}")))?;
    let nodes = expr.nodes();
    for node in nodes {
        let known = match *node {
            Node::Input(_) | Node::Select(..) | Node::Cast(..) => true,
            Node::Const(scalar, dtype) => scalar.to_bytes(dtype).is_some(),
            Node::Unary(op, x) => with_lane!(dtypes[usize::from(x)], T => T::has_unary(op)),
            Node::Binary(op, a, _) => {
                op.is_comparison() || with_lane!(dtypes[usize::from(a)], T => T::has_binary(op))
            }
            _ => false,
        };
        if !known {
            return Err(unsupported(format_args!("the step {node:?} of {expr:?} for inputs of {inputs:?}")));
        }
    }
    Ok(())
}

/// What a step costs compared with an addition.
fn weight(node: &Node) -> usize {
    match node {
        Node::Unary(UnaryOp::Exp | UnaryOp::Log | UnaryOp::Tanh | UnaryOp::Erf, _) => 8,
        Node::Binary(BinaryOp::Pow, ..) => 24,
        Node::Binary(BinaryOp::Div, ..) | Node::Unary(UnaryOp::Sqrt | UnaryOp::Rsqrt, _) => 3,
        Node::Input(_) | Node::Const(..) => 0,
        _ => 1,
    }
}

/// One step on inputs of the result's shape and dtype, of which the second may be a number, without the preparation of a
/// [`Program`].
fn direct<T: Item>(expr: &Expr, inputs: &[&LocalArray], out: &mut LocalArray) -> Option<Result<()>> {
    let (mut values, count): (Values<'_>, usize) = match (expr.nodes(), inputs) {
        ([Node::Input(0), Node::Unary(..)], [_]) => (SmallVec::new(), 1),
        ([Node::Input(0), Node::Const(_, dtype), Node::Binary(op, 0, 1)], [_])
            if !op.is_comparison() && *dtype == out.dtype() =>
        {
            (SmallVec::new(), 1)
        }
        ([Node::Input(0), Node::Input(1), Node::Binary(op, 0, 1)], [_, _]) if !op.is_comparison() => {
            (SmallVec::new(), 2)
        }
        _ => return None,
    };
    for input in &inputs[..count] {
        if input.shape() != out.shape() {
            return None;
        }
        values.push(T::value(Lane::Slice(dense::<T>(input)?)));
    }
    if let [_, Node::Const(scalar, _), _] = expr.nodes() {
        values.push(T::value(Lane::Splat(T::from_scalar(*scalar)?)));
    }
    let node = expr.nodes().last()?;
    // SAFETY: a step writes every element, as its operands are as long as the result.
    Some(unsafe { overwrite::<T>(out, |out| step(node, &values, out)) })
}

/// How much is computed: by it a result is written by this thread or the pool, through the caches or past them.
#[derive(Clone, Copy)]
pub(crate) enum Size {
    Small,
    /// The bytes of all results of the launch.
    Large(usize),
}

impl Size {
    /// Writes a contiguous array by `write(start, places)`, in tasks of so many elements where it is large, and in pieces where
    /// it goes past the caches.
    ///
    /// # Safety
    /// Where `write` gives `Ok`, it has put a value on every place.
    pub(crate) unsafe fn write<T: Cell>(
        self,
        out: &mut LocalArray,
        (task, piece): (usize, usize),
        write: impl Fn(usize, &mut [MaybeUninit<T>]) -> Result<()> + Sync,
    ) -> Result<()> {
        // SAFETY: the caller's promise, of every piece and so of every task.
        unsafe {
            self.tasks(out, task, |first, out, beside| {
                staged(beside, piece, out, |start, out| write(first + start, out))
            })
        }
    }

    /// As [`write`](Self::write), by `write(start, places, beside)` of a task at a time.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn tasks<T: Cell>(
        self,
        out: &mut LocalArray,
        task: usize,
        write: impl Fn(usize, &mut [MaybeUninit<T>], Option<&Beside>) -> Result<()> + Sync,
    ) -> Result<()> {
        let all = |out: &mut [MaybeUninit<T>]| match self {
            Self::Small => write(0, out, None),
            Self::Large(bytes) => device::try_chunks(out, task, |i, out| {
                let beside = Beside::new(bytes);
                write(i * task, out, beside.as_ref())
            }),
        };
        // SAFETY: the tasks are the whole slice, and the caller promises that each is written.
        unsafe { overwrite::<T>(out, all) }
    }
}

/// Whether each of several results is too small to be split, and all of them together are worth the pool.
pub(crate) fn are_tasks<'a>(expr: &Expr, results: impl Iterator<Item = &'a LocalArray>) -> bool {
    let (mut count, mut elements) = (0, 0_usize);
    for result in results {
        if result.elements() > TASK {
            return false;
        }
        (count, elements) = (count + 1, elements.saturating_add(result.elements()));
    }
    count > 1 && is_large(elements.saturating_mul(steps(expr)))
}

/// What an element costs compared with an addition.
fn steps(expr: &Expr) -> usize {
    expr.nodes().iter().map(weight).sum::<usize>().max(1)
}

/// Runs the primitive; the launch makes so many results like this one.
pub(crate) fn run(expr: &Expr, inputs: &[&LocalArray], out: &mut LocalArray, alike: usize) -> Result<()> {
    let elements = out.elements();
    if elements == 0 {
        return check(expr, &inputs.iter().map(|input| input.dtype()).collect::<SmallVec<[DType; 4]>>());
    }
    let large = is_large(elements.saturating_mul(steps(expr)));
    let size = if large { Size::Large(out.bytes().saturating_mul(alike)) } else { Size::Small };
    if is_narrow(out.dtype()) {
        if let Some(done) = collective::halves::sum(expr, inputs, out, size) {
            return done;
        }
        return with_narrow!(out.dtype(), S => {
            compute::<S>(expr, inputs, out, size, |program, start, out| program.run_narrow(start, out))
        });
    }
    with_lane!(out.dtype(), T => {
        if !large && let Some(done) = direct::<T>(expr, inputs, out) {
            return done;
        }
        if let Some(done) = collective::sum::sum::<T, { ALIGN / size_of::<T>() }>(expr, inputs, out, size) {
            return done;
        }
        compute::<T>(expr, inputs, out, size, |program, start, out| program.run(start, out))
    })
}

/// Runs an expression by `run(program, start, out)`, which writes every element of `out`; over the pool, if large.
fn compute<T: Cell>(
    expr: &Expr,
    inputs: &[&LocalArray],
    out: &mut LocalArray,
    size: Size,
    run: impl Fn(&Program<'_>, usize, &mut [MaybeUninit<T>]) -> Result<()> + Sync,
) -> Result<()> {
    // What would be read across its rows again and again is brought into order first, tile by tile.
    let mut ordered: SmallVec<[Option<LocalArray>; 4]> = SmallVec::new();
    for input in inputs {
        ordered.push(if transposes(input.meta()) { Some(in_order(input)?) } else { None });
    }
    let inputs: SmallVec<[&LocalArray; 4]> =
        inputs.iter().zip(&ordered).map(|(input, ordered)| ordered.as_ref().unwrap_or(input)).collect();
    let program = Program::new(expr, &inputs, out)?;
    // SAFETY: `run` writes every element.
    unsafe { size.write(out, (TASK, CHUNK), |start, out| run(&program, start, out)) }
}

/// A contiguous copy of an array.
fn in_order(array: &LocalArray) -> Result<LocalArray> {
    let mut copy = alloc(array.device(), array.dtype(), array.shape())?;
    with_word!(array.dtype(), W => {
        let view = View::<W>::of(array)?;
        // SAFETY: `copy` writes every element.
        unsafe {
            overwrite::<W>(&mut copy, |out| {
                view.copy(out);
                Ok(())
            })?;
        }
    });
    Ok(copy)
}
