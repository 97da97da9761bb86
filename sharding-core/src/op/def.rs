//! The definition of an op, typed and erased.

use super::{Cases, Grouped, OpArgs};
use crate::backend::{LocalArray, LocalArrays};
use crate::kernel::KernelCx;
use crate::rule::{Rows, RuleCx};
use crate::stage::{Shards, StageCx};
use crate::{Error, ErrorKind, Metas, Result, TensorMeta};
use std::any::{Any, TypeId};

/// How an operand is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// `x: &LocalArray`.
    Tensor,
    /// `#[scalar] x: &LocalArray`: a tensor or a number.
    Scalar,
    /// `x: &[&LocalArray]`.
    Many,
    /// `x: Option<&LocalArray>`.
    Optional,
    /// `x: &mut LocalArray`.
    Written,
}

/// The name and kind of a declared operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandDef {
    /// Its name, as in errors and reports.
    pub name: &'static str,
    /// How it is declared.
    pub kind: OperandKind,
}

/// An op. Implemented by `#[sharding_rule]`, one type per op; all functions are pure but the kernel and stages.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an op",
    note = "write the path of a function that `#[sharding_rule]` stands on"
)]
pub trait Op: 'static {
    /// Its plain arguments.
    type Args: OpArgs;
    /// Its erased form.
    const DEF: &'static OpDef;

    /// Global shapes and dtypes of the results, or why there are none.
    ///
    /// # Errors
    /// What does not fit, with kind Shape, DType, Axis or Argument.
    fn shape(operands: Grouped<'_, TensorMeta>, args: &Self::Args) -> Result<Metas>;

    /// The rows on one mesh axis.
    ///
    /// # Errors
    /// [`ErrorKind::Sharding`] where the op cannot run at all.
    fn rows(cx: &RuleCx<'_>, args: &Self::Args, rows: &mut Rows) -> Result<()>;

    /// The local kernel: adds the local arrays of the results, made from those of the operands, to `results`. `written` are
    /// the operands declared as written, in order; they are absent from `operands`, where their groups are empty (so that
    /// declared operands keep their numbers).
    ///
    /// # Errors
    /// What the primitives say.
    fn kernel(
        cx: &mut KernelCx<'_>,
        operands: Grouped<'_, &LocalArray>,
        written: &mut [LocalArray],
        args: &Self::Args,
        results: &mut LocalArrays,
    ) -> Result<()>;

    /// The staged function, run in place of the kernel if a staged row was chosen on any mesh axis.
    ///
    /// # Errors
    /// What the kernels and collectives say.
    fn stages(cx: &mut StageCx<'_>, operands: Grouped<'_, Shards>, args: &Self::Args) -> Result<Vec<Shards>>;

    /// Adds valid calls.
    fn cases(cases: &mut Cases);
}

/// An erased local kernel. It adds its results to a list, as an array is long: to hand it up would copy it at every level.
pub type ErasedKernel = fn(
    &mut KernelCx<'_>,
    Grouped<'_, &LocalArray>,
    &mut [LocalArray],
    &dyn Any,
    &mut LocalArrays,
) -> Result<()>;
/// An erased shape function.
pub type ErasedShape = fn(Grouped<'_, TensorMeta>, &dyn Any) -> Result<Metas>;
/// An erased rule.
pub type ErasedRows = fn(&RuleCx<'_>, &dyn Any, &mut Rows) -> Result<()>;
/// An erased staged function.
pub type ErasedStages = fn(&mut StageCx<'_>, Grouped<'_, Shards>, &dyn Any) -> Result<Vec<Shards>>;

/// A registered op: function pointers and where it was declared.
#[derive(Clone, Copy)]
pub struct OpDef {
    /// Its name.
    pub name: &'static str,
    /// Its declared operands.
    pub operands: &'static [OperandDef],
    /// The number of results; `None` where each call has as many as the shape function says.
    pub results: Option<usize>,
    /// The type of its arguments.
    pub args: fn() -> TypeId,
    /// The shape function.
    pub shape: ErasedShape,
    /// The rule.
    pub rows: ErasedRows,
    /// The local kernel on primitives; ops with kernels per backend only have one that says so.
    pub kernel: ErasedKernel,
    /// The staged function.
    pub stages: ErasedStages,
    /// Adds valid calls.
    pub cases: fn(&mut Cases),
    /// File and line.
    pub at: (&'static str, u32),
}

inventory::collect!(OpDef);

/// The arguments of an op in their type.
///
/// # Errors
/// [`ErrorKind::Internal`] if they are another op's.
pub fn typed<'a, A: OpArgs>(def: &OpDef, args: &'a dyn Any) -> Result<&'a A> {
    args.downcast_ref().ok_or_else(|| {
        Error::new(ErrorKind::Internal, format!("the arguments of {} are of another type", def.name))
    })
}

impl OpDef {
    /// The erased form of an op.
    pub const fn of<O: Op>(
        name: &'static str,
        operands: &'static [OperandDef],
        results: Option<usize>,
        at: (&'static str, u32),
    ) -> Self {
        Self {
            name,
            operands,
            results,
            args: TypeId::of::<O::Args>,
            shape: |operands, args| O::shape(operands, typed(O::DEF, args)?),
            rows: |cx, args, rows| O::rows(cx, typed(O::DEF, args)?, rows),
            kernel: |cx, operands, written, args, results| {
                O::kernel(cx, operands, written, typed(O::DEF, args)?, results)
            },
            stages: |cx, operands, args| O::stages(cx, operands, typed(O::DEF, args)?),
            cases: O::cases,
            at,
        }
    }

    /// Whether both are one op: one definition, of which a program may hold several copies.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.name == other.name
                && self.at == other.at
                && self.results == other.results
                && self.operands == other.operands
                && (self.args)() == (other.args)())
    }

    /// The name of a flat operand: `lhs`, or `xs.1` for one of a slice.
    pub fn operand_name(&self, groups: super::Groups<'_>, flat: usize) -> String {
        operand_name(self.operands, groups, flat)
    }
}

/// The name of a flat operand of these declared ones: `lhs`, or `xs.1` for one of a slice.
pub fn operand_name(declared: &[OperandDef], groups: super::Groups<'_>, flat: usize) -> String {
    let (number, i) = groups.locate(flat);
    match declared.get(number) {
        Some(OperandDef { name, kind: OperandKind::Many }) => format!("{name}.{i}"),
        Some(OperandDef { name, .. }) => (*name).to_owned(),
        None => format!("operand {flat}"),
    }
}

/// A kernel that replaces an op's portable one on one backend; made by `#[kernel]`.
pub struct KernelDef {
    /// The op's definition, so that the two cannot disagree about types.
    pub op: &'static OpDef,
    /// The backend's kind.
    pub backend: &'static str,
    /// The kernel.
    pub run: ErasedKernel,
    /// File and line.
    pub at: (&'static str, u32),
}

inventory::collect!(KernelDef);
