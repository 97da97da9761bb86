//! Elementwise expressions, evaluated step by step on chunks that stay in the cache.

use crate::copy::{Walk, transposes};
use crate::device::{is_large, vectorize};
use crate::element::{Item, apply, with_dtype};
use crate::storage::{View, alloc, as_slots, dense, internal, overwrite, unsupported};
use rayon::prelude::*;
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

/// A [`Lane`] of any dtype.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Bool(Lane<'a, bool>),
    I64(Lane<'a, i64>),
    F32(Lane<'a, f32>),
}

impl Value<'_> {
    /// The dtype.
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Value::Bool(_) => DType::Bool,
            Value::I64(_) => DType::I64,
            Value::F32(_) => DType::F32,
        }
    }
}

/// Room for intermediate results of every dtype.
#[derive(Default)]
pub(crate) struct Room<'a> {
    pub(crate) bools: &'a mut [bool],
    pub(crate) ints: &'a mut [i64],
    pub(crate) floats: &'a mut [f32],
}

/// Memory for [`Room`], kept from call to call.
#[derive(Default)]
struct Scratch {
    bools: Vec<bool>,
    ints: Vec<i64>,
    floats: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Scratch {
    fn room(&mut self, needs: &Needs) -> Room<'_> {
        fn grown<T: Item>(vec: &mut Vec<T>, len: usize) -> &mut [T] {
            if vec.len() < len {
                vec.resize(len, T::ZERO);
            }
            &mut vec[..len]
        }
        Room {
            bools: grown(&mut self.bools, needs.bools * CHUNK),
            ints: grown(&mut self.ints, needs.ints * CHUNK),
            floats: grown(&mut self.floats, needs.floats * CHUNK),
        }
    }
}

/// How many chunks of each dtype an expression keeps.
#[derive(Clone, Copy, Default)]
struct Needs {
    bools: usize,
    ints: usize,
    floats: usize,
}

impl Needs {
    fn add(&mut self, dtype: DType) {
        match dtype {
            DType::Bool => self.bools += 1,
            DType::I64 => self.ints += 1,
            _ => self.floats += 1,
        }
    }
    fn is_empty(&self) -> bool {
        self.bools + self.ints + self.floats == 0
    }
}

/// An input of an expression.
enum Source<'a> {
    /// The result's elements in order, or one for all.
    Direct(Value<'a>),
    /// Anything else is copied chunk by chunk.
    Strided(Value<'a>, Walk),
}

impl<'a> Source<'a> {
    fn new(array: &'a LocalArray, shape: &Shape) -> Result<Self> {
        with_dtype!(array.dtype(), T => {
            let view = View::<T>::of(array)?;
            if **array.shape() == **shape && let Some(elements) = view.dense() {
                return Ok(Source::Direct(T::value(Lane::Slice(elements))));
            }
            let meta = view.meta();
            let walk = Walk::broadcast(&meta.shape, &meta.strides, meta.offset as isize, shape)
                .ok_or_else(|| internal(format!("{} does not broadcast to {shape}", meta.shape)))?;
            Ok(match walk.splat() {
                Some(at) => Source::Direct(T::value(Lane::Splat(view.data()[at]))),
                None => Source::Strided(T::value(Lane::Slice(view.data())), walk),
            })
        })
    }

    /// Elements `start..start + len` of the result's order.
    fn chunk<'r>(&self, start: usize, len: usize, room: &mut Room<'r>) -> Result<Value<'r>>
    where
        'a: 'r,
    {
        match self {
            Source::Direct(value) => Ok(value.chunk(start, len)),
            Source::Strided(value, walk) => with_dtype!(value.dtype(), T => {
                let data = if let Some(Lane::Slice(data)) = T::lane(value) { data } else { &[] };
                let out = T::take(room, CHUNK).ok_or_else(no_room)?;
                walk.read(data, start, &mut out[..len]);
                Ok(T::value(Lane::Slice(&out[..len])))
            }),
        }
    }
}

impl<'a> Value<'a> {
    fn chunk(self, start: usize, len: usize) -> Self {
        fn part<T>(lane: Lane<'_, T>, start: usize, len: usize) -> Lane<'_, T> {
            match lane {
                Lane::Slice(all) => Lane::Slice(&all[start..start + len]),
                splat => splat,
            }
        }
        match self {
            Value::Bool(lane) => Value::Bool(part(lane, start, len)),
            Value::I64(lane) => Value::I64(part(lane, start, len)),
            Value::F32(lane) => Value::F32(part(lane, start, len)),
        }
    }
}

fn no_room() -> Error {
    internal("an expression keeps more than was counted")
}

type Values<'a> = SmallVec<[Value<'a>; 8]>;

/// The step of an expression that cannot run, in words.
fn step_error(node: &Node, values: &[Value<'_>]) -> Error {
    let dtype = |i: u8| values.get(usize::from(i)).map_or("nothing", |value| value.dtype().name());
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
                let error = Error::new(ErrorKind::Kernel, format!("a division of {} by zero", T::DTYPE));
                return Err(Some(
                    error.with_fix("replace zeros in the divisor first: where_(b.eq(0), 1, b)"),
                ));
            }
            T::binary(op, a, b, out)
        }
        Node::Select(c, a, b) => {
            let c = bool::lane(at(c)?).ok_or(None)?;
            select(c, lane(a)?, lane(b)?, out);
            true
        }
        Node::Cast(_, x) => {
            T::cast(at(x)?, out);
            true
        }
        _ => false,
    };
    if done { Ok(()) } else { Err(None) }
}

fn select<T: Item>(c: Lane<'_, bool>, a: Lane<'_, T>, b: Lane<'_, T>, out: &mut [MaybeUninit<T>]) {
    let c = match c {
        Lane::Slice(c) => c,
        Lane::Splat(c) => return apply(if c { a } else { b }, out, |x| x),
    };
    // Slices of one known length: the loops need no checks of bounds.
    let n = out.len();
    let c = &c[..n];
    match (a, b) {
        (Lane::Slice(a), Lane::Slice(b)) => {
            let (a, b) = (&a[..n], &b[..n]);
            choose(c, out, |i| a[i], |i| b[i]);
        }
        (Lane::Slice(a), Lane::Splat(b)) => {
            let a = &a[..n];
            choose(c, out, |i| a[i], |_| b);
        }
        (Lane::Splat(a), Lane::Slice(b)) => {
            let b = &b[..n];
            choose(c, out, |_| a, |i| b[i]);
        }
        (Lane::Splat(a), Lane::Splat(b)) => choose(c, out, |_| a, |_| b),
    }
}

/// `out[i] = if c[i] { a(i) } else { b(i) }`; both sides are read, so that the loop has no branch.
fn choose<T: Item>(c: &[bool], out: &mut [MaybeUninit<T>], a: impl Fn(usize) -> T, b: impl Fn(usize) -> T) {
    vectorize(
        #[inline(always)]
        || {
            for (i, (slot, c)) in out.iter_mut().zip(c).enumerate() {
                let (a, b) = (a(i), b(i));
                slot.write(if *c { a } else { b });
            }
        },
    );
}

/// The dtype of a step's result.
fn step_dtype(node: &Node, values: &[Value<'_>]) -> Option<DType> {
    let at = |i: u8| values.get(usize::from(i)).map(Value::dtype);
    match *node {
        Node::Unary(_, x) => at(x),
        Node::Binary(op, a, _) => {
            if op.is_comparison() {
                Some(DType::Bool)
            } else {
                at(a)
            }
        }
        Node::Select(_, a, _) => at(a),
        Node::Cast(dtype, _) => Some(dtype),
        _ => None,
    }
}

/// An expression over the inputs of one launch.
struct Program<'a> {
    nodes: &'a [Node],
    sources: SmallVec<[Source<'a>; 4]>,
    needs: Needs,
}

impl<'a> Program<'a> {
    fn new(expr: &'a Expr, inputs: &'a [&'a LocalArray], shape: &Shape) -> Result<Self> {
        let nodes = expr.nodes();
        let sources =
            inputs.iter().map(|input| Source::new(input, shape)).collect::<Result<SmallVec<[_; 4]>>>()?;
        let mut needs = Needs::default();
        for (source, input) in sources.iter().zip(inputs) {
            if matches!(source, Source::Strided(..)) {
                needs.add(input.dtype());
            }
        }
        // The last step writes into the result; those of leaves are kept elsewhere.
        let inner = nodes.split_last().map_or(&[][..], |(_, inner)| inner);
        if inner.iter().any(|node| !matches!(node, Node::Input(_) | Node::Const(..))) {
            let dtypes: SmallVec<[DType; 4]> = inputs.iter().map(|input| input.dtype()).collect();
            let dtypes = expr.dtypes(&dtypes).ok_or_else(|| unsupported(format_args!("{expr:?}")))?;
            for (node, dtype) in inner.iter().zip(dtypes) {
                if !matches!(node, Node::Input(_) | Node::Const(..)) {
                    needs.add(dtype);
                }
            }
        }
        Ok(Self { nodes, sources, needs })
    }

    /// Writes elements `start..start + out.len()` of the result; every one of them, if it gives `Ok`.
    fn run<T: Item>(&self, start: usize, out: &mut [MaybeUninit<T>]) -> Result<()> {
        if self.needs.is_empty() {
            return self.chunk(start, out, &mut Room::default());
        }
        SCRATCH.with_borrow_mut(|scratch| {
            out.chunks_mut(CHUNK)
                .enumerate()
                .try_for_each(|(i, out)| self.chunk(start + i * CHUNK, out, &mut scratch.room(&self.needs)))
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
        for node in inner {
            let value = match leaf(node, &inputs)? {
                Some(value) => value,
                None => {
                    let dtype = step_dtype(node, &values).ok_or_else(|| step_error(node, &values))?;
                    with_dtype!(dtype, X => {
                        let kept = X::take(room, CHUNK).ok_or_else(no_room)?;
                        let kept = &mut kept[..len];
                        // SAFETY: `step` only puts values into the slots.
                        step::<X>(node, &values, unsafe { as_slots(kept) })?;
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
        Node::Const(scalar, dtype) => with_dtype!(dtype, T => {
            let value = T::from_scalar(scalar)
                .ok_or_else(|| unsupported(format_args!("the constant {scalar} as {dtype}")))?;
            Ok(Some(T::value(Lane::Splat(value))))
        }),
        _ => Ok(None),
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
            Node::Const(scalar, dtype) => with_dtype!(dtype, T => T::from_scalar(scalar).is_some()),
            Node::Unary(op, x) => with_dtype!(dtypes[usize::from(x)], T => T::has_unary(op)),
            Node::Binary(op, a, _) => {
                op.is_comparison() || with_dtype!(dtypes[usize::from(a)], T => T::has_binary(op))
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
        Node::Binary(BinaryOp::Div, ..) | Node::Unary(UnaryOp::Sqrt | UnaryOp::Rsqrt, _) => 3,
        Node::Input(_) | Node::Const(..) => 0,
        _ => 1,
    }
}

/// One step on inputs of the result's shape and dtype, without the preparation of a [`Program`].
fn direct<T: Item>(expr: &Expr, inputs: &[&LocalArray], out: &mut LocalArray) -> Option<Result<()>> {
    let (mut values, count): (Values<'_>, usize) = match (expr.nodes(), inputs) {
        ([Node::Input(0), Node::Unary(..)], [_]) => (SmallVec::new(), 1),
        ([Node::Input(0), Node::Input(1), Node::Binary(op, 0, 1)], [_, _]) if !op.is_comparison() => {
            (SmallVec::new(), 2)
        }
        _ => return None,
    };
    for input in &inputs[..count] {
        if **input.shape() != **out.shape() {
            return None;
        }
        values.push(T::value(Lane::Slice(dense::<T>(input)?)));
    }
    let node = expr.nodes().last()?;
    // SAFETY: a step writes every element, as its operands are as long as the result.
    Some(unsafe { overwrite::<T>(out, |out| step(node, &values, out)) })
}

/// Runs the primitive.
pub(crate) fn run(expr: &Expr, inputs: &[&LocalArray], out: &mut LocalArray) -> Result<()> {
    let elements = out.elements();
    if elements == 0 {
        return check(expr, &inputs.iter().map(|input| input.dtype()).collect::<SmallVec<[DType; 4]>>());
    }
    let steps = expr.nodes().iter().map(weight).sum::<usize>().max(1);
    let large = is_large(elements.saturating_mul(steps));
    with_dtype!(out.dtype(), T => {
        if !large && let Some(done) = direct::<T>(expr, inputs, out) {
            return done;
        }
        let shape = out.shape().clone();
        // What would be read across its rows again and again is brought into order first, tile by tile.
        let mut ordered: SmallVec<[Option<LocalArray>; 4]> = SmallVec::new();
        for input in inputs {
            ordered.push(if transposes(input.meta()) { Some(in_order(input)?) } else { None });
        }
        let inputs: SmallVec<[&LocalArray; 4]> =
            inputs.iter().zip(&ordered).map(|(input, ordered)| ordered.as_ref().unwrap_or(input)).collect();
        let program = Program::new(expr, &inputs, &shape)?;
        let write = |out: &mut [MaybeUninit<T>]| {
            if large {
                out.par_chunks_mut(TASK)
                    .enumerate()
                    .try_for_each(|(i, out)| program.run(i * TASK, out))
            } else {
                program.run(0, out)
            }
        };
        // SAFETY: the tasks cover the whole slice, and `Program::run` writes every element of each.
        unsafe { overwrite::<T>(out, write) }
    })
}

/// A contiguous copy of an array.
fn in_order(array: &LocalArray) -> Result<LocalArray> {
    let mut copy = alloc(array.device(), array.dtype(), array.shape())?;
    with_dtype!(array.dtype(), T => {
        let view = View::<T>::of(array)?;
        // SAFETY: `copy` writes every element.
        unsafe {
            overwrite::<T>(&mut copy, |out| {
                view.copy(out);
                Ok(())
            })?;
        }
    });
    Ok(copy)
}
