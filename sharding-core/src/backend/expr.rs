//! Elementwise expressions: one pass over the inputs, whatever their number of steps.

use crate::{DType, Scalar};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A function of one number.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`; wraps for integers.
    Neg,
    /// `|x|`; wraps for the least integer.
    Abs,
    /// `e` to the power of `x`.
    Exp,
    /// The natural logarithm.
    Log,
    /// The square root.
    Sqrt,
    /// `1 / sqrt(x)`.
    Rsqrt,
    /// The hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// The opposite truth value.
    Not,
}

/// A function of two numbers of one dtype; comparisons give bool.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `a + b`; wraps for integers.
    Add,
    /// `a - b`; wraps for integers.
    Sub,
    /// `a * b`; wraps for integers.
    Mul,
    /// `a / b`; an error where an integer is divided by 0.
    Div,
    /// `a` to the power of `b`, of floats, with the special values of IEEE 754's `pow`: 1 for `b = 0`, NaN where a
    /// negative `a` has no real power.
    Pow,
    /// The greater; NaN if either is NaN.
    Max,
    /// The lesser; NaN if either is NaN.
    Min,
    /// Whether `a = b`.
    Eq,
    /// Whether `a < b`.
    Lt,
    /// Whether `a <= b`.
    Le,
    /// Whether both truth values are true.
    And,
    /// Whether one of the truth values is true.
    Or,
}

impl BinaryOp {
    /// Whether the result is bool whatever the operands.
    pub const fn is_comparison(self) -> bool {
        matches!(self, BinaryOp::Eq | BinaryOp::Lt | BinaryOp::Le)
    }
}

/// One step of an [`Expr`]; numbers are places of earlier steps.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    /// The element of an input.
    Input(u8),
    /// A constant in the given dtype.
    Const(Scalar, DType),
    /// A function of one step.
    Unary(UnaryOp, u8),
    /// A function of two steps.
    Binary(BinaryOp, u8, u8),
    /// `if a { b } else { c }`, with a of dtype bool.
    Select(u8, u8, u8),
    /// Conversion as Rust's `as`; to bool: whether it is not 0.
    Cast(DType, u8),
}

/// An elementwise expression over broadcast inputs: steps in order, of which the last is the result.
///
/// `Expr` is built from constant steps, or by the functions below; both forms are equal if their steps are.
///
/// ```
/// use sharding_core::backend::{BinaryOp, Expr, UnaryOp};
/// let x = Expr::input(0);
/// let silu_like = Expr::binary(BinaryOp::Mul, x.clone(), Expr::unary(UnaryOp::Tanh, x));
/// assert_eq!(silu_like.inputs(), 1);
/// ```
#[derive(Clone, PartialEq)]
pub struct Expr(Cow<'static, [Node]>);

impl Expr {
    /// An expression of constant steps.
    pub const fn from_static(nodes: &'static [Node]) -> Self {
        Self(Cow::Borrowed(nodes))
    }
    /// Input `i`.
    pub fn input(i: u8) -> Self {
        Self(Cow::Owned(vec![Node::Input(i)]))
    }
    /// A constant.
    pub fn constant(value: impl Into<Scalar>, dtype: DType) -> Self {
        Self(Cow::Owned(vec![Node::Const(value.into(), dtype)]))
    }
    /// `op(x)`.
    #[must_use]
    pub fn unary(op: UnaryOp, x: Self) -> Self {
        let mut nodes = x.0.into_owned();
        nodes.push(Node::Unary(op, last(&nodes)));
        Self(Cow::Owned(nodes))
    }
    /// `op(a, b)`.
    #[must_use]
    pub fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
        let mut nodes = a.0.into_owned();
        let left = last(&nodes);
        let right = append(&mut nodes, &b.0);
        nodes.push(Node::Binary(op, left, right));
        Self(Cow::Owned(nodes))
    }
    /// `if condition { a } else { b }`.
    #[must_use]
    pub fn select(condition: Self, a: Self, b: Self) -> Self {
        let mut nodes = condition.0.into_owned();
        let c = last(&nodes);
        let x = append(&mut nodes, &a.0);
        let y = append(&mut nodes, &b.0);
        nodes.push(Node::Select(c, x, y));
        Self(Cow::Owned(nodes))
    }
    /// `x as dtype`.
    #[must_use]
    pub fn cast(dtype: DType, x: Self) -> Self {
        let mut nodes = x.0.into_owned();
        nodes.push(Node::Cast(dtype, last(&nodes)));
        Self(Cow::Owned(nodes))
    }

    /// The steps.
    pub fn nodes(&self) -> &[Node] {
        &self.0
    }
    /// The number of inputs it reads: one more than the highest.
    pub fn inputs(&self) -> usize {
        let reads = |node: &Node| if let Node::Input(i) = node { usize::from(*i) + 1 } else { 0 };
        self.0.iter().map(reads).max().unwrap_or(0)
    }

    /// The dtype of every step for inputs of these dtypes; the last one is the result's. `None` where the steps do
    /// not fit each other: operands of two dtypes, a condition that is not bool, a step that does not exist.
    pub fn dtypes(&self, inputs: &[DType]) -> Option<SmallVec<[DType; 8]>> {
        let mut known: SmallVec<[DType; 8]> = SmallVec::with_capacity(self.0.len());
        for node in self.0.iter() {
            let at = |i: u8| known.get(usize::from(i)).copied();
            let dtype = match *node {
                Node::Input(i) => *inputs.get(usize::from(i))?,
                Node::Const(_, dtype) => dtype,
                Node::Unary(_, x) => at(x)?,
                Node::Binary(op, a, b) => {
                    let (a, b) = (at(a)?, at(b)?);
                    if a != b {
                        return None;
                    }
                    if op.is_comparison() { DType::Bool } else { a }
                }
                Node::Select(c, a, b) => {
                    if at(c)? != DType::Bool || at(a)? != at(b)? {
                        return None;
                    }
                    at(a)?
                }
                Node::Cast(dtype, x) => at(x).map(|_| dtype)?,
            };
            known.push(dtype);
        }
        if known.is_empty() { None } else { Some(known) }
    }
}

fn last(nodes: &[Node]) -> u8 {
    u8::try_from(nodes.len()).unwrap_or(u8::MAX).saturating_sub(1)
}

fn append(nodes: &mut Vec<Node>, more: &[Node]) -> u8 {
    let base = u8::try_from(nodes.len()).unwrap_or(u8::MAX);
    let shift = |i: u8| i.saturating_add(base);
    nodes.extend(more.iter().map(|node| match *node {
        Node::Unary(op, x) => Node::Unary(op, shift(x)),
        Node::Binary(op, a, b) => Node::Binary(op, shift(a), shift(b)),
        Node::Select(c, a, b) => Node::Select(shift(c), shift(a), shift(b)),
        Node::Cast(dtype, x) => Node::Cast(dtype, shift(x)),
        Node::Input(_) | Node::Const(..) => *node,
    }));
    last(nodes)
}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for node in self.0.iter() {
            std::mem::discriminant(node).hash(state);
            match *node {
                Node::Input(i) => i.hash(state),
                Node::Const(value, dtype) => (value.key_bits(), dtype).hash(state),
                Node::Unary(op, x) => (op, x).hash(state),
                Node::Binary(op, a, b) => (op, a, b).hash(state),
                Node::Select(c, a, b) => (c, a, b).hash(state),
                Node::Cast(dtype, x) => (dtype, x).hash(state),
            }
        }
    }
}
impl Eq for Expr {}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({:?})", self.0)
    }
}
