//! `&a + &b`: Rust's operators on tensors, all returning `Result`.
//!
//! Operators must be implemented beside [`Tensor`], which knows no op: the crate with the ops submits one
//! [`OperatorDef`] for each.

use crate::op::{OpArgs, OpDef};
use crate::{Error, ErrorKind, Operand, Result, Scalar, Tensor, dispatch_dyn};
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::OnceLock;

/// A Rust operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `-` before one operand
    Neg,
}

/// The op that an operator calls; submitted through [`inventory`]. The first one submitted counts.
pub struct OperatorDef {
    /// The operator.
    pub operator: Operator,
    /// The op: two operands, one for [`Operator::Neg`], and one result.
    pub op: &'static OpDef,
    /// Its arguments.
    pub args: fn() -> &'static dyn OpArgs,
}

inventory::collect!(OperatorDef);

#[track_caller]
fn operate(operator: Operator, operands: &mut [Operand<'_>]) -> Result<Tensor> {
    static FOUND: OnceLock<[Option<&'static OperatorDef>; 5]> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        [Operator::Add, Operator::Sub, Operator::Mul, Operator::Div, Operator::Neg]
            .map(|operator| inventory::iter::<OperatorDef>.into_iter().find(|def| def.operator == operator))
    });
    match found.get(operator as usize).copied().flatten() {
        Some(def) => dispatch_dyn(def.op, operands, (def.args)())?.one(),
        None => {
            Err(Error::new(ErrorKind::Registry, format!("no op is linked for the operator {operator:?}"))
                .with_fix("use sharding_ops as _;"))
        }
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait<&Tensor> for &Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Self::Output {
                operate(Operator::$trait, &mut [self.into(), rhs.into()])
            }
        }
        // One type of each kind: with two, the type of a bare `2.0` in `(&x + 2.0)?` could not be inferred.
        number_operators!($trait $method: f64, i64);
    )*};
}
macro_rules! number_operators {
    ($trait:ident $method:ident: $($number:ty),*) => {$(
        impl $trait<$number> for &Tensor {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: $number) -> Self::Output {
                operate(Operator::$trait, &mut [self.into(), Operand::Scalar(Scalar::from(rhs))])
            }
        }
        impl $trait<&Tensor> for $number {
            type Output = Result<Tensor>;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Self::Output {
                operate(Operator::$trait, &mut [Operand::Scalar(Scalar::from(self)), rhs.into()])
            }
        }
    )*};
}
operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for &Tensor {
    type Output = Result<Tensor>;
    #[track_caller]
    fn neg(self) -> Self::Output {
        operate(Operator::Neg, &mut [self.into()])
    }
}
