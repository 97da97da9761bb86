//! The attributes `#[sharding_rule]` and `#[kernel]`, and `#[derive(ShardedState)]`.
//!
//! `#[sharding_rule]` stands on a *local kernel*: the function that computes an op on one device's shards. It makes
//! the op of it: a public function of the same name on tensors, a type of the same name that holds the op's plain
//! arguments, and a registration that other crates find.
//!
//! ```
//! use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};
//!
//! /// A batched matrix product.
//! #[sharding_rule(["... m k, ... k n -> ... m n", "k, ... k n -> ... n"], reduce(k = sum), linear(each))]
//! pub fn product(cx: &mut KernelCx, lhs: &LocalArray, rhs: &LocalArray) -> Result<LocalArray> {
//!     cx.dot(lhs, rhs)
//! }
//!
//! use sharding_core::Tensor;
//! let on_tensors: fn(&Tensor, &Tensor) -> Result<Tensor> = product;
//! let definition = <product as sharding_core::op::Op>::DEF;
//! assert_eq!((definition.name, definition.results), ("product", Some(1)));
//! # let _ = on_tensors;
//! ```
//!
//! # The kernel
//!
//! `fn name(cx: &mut KernelCx, ..) -> Result<..>`, a free function without generics. Behind `cx` stand, in any order:
//!
//! | parameter of the kernel | parameter of the public function | in shape and staged functions |
//! |---|---|---|
//! | `x: &LocalArray` | `&Tensor` | `&TensorMeta`, `&Shards` |
//! | `#[scalar] x: &LocalArray` | a tensor or a number | the same |
//! | `xs: &[&LocalArray]` | `&[Tensor]` | `&[TensorMeta]`, `&[Shards]` |
//! | `x: Option<&LocalArray>` | `Option<&Tensor>` | `Option<&TensorMeta>`, `Option<&Shards>` |
//! | `x: &mut LocalArray` (the op writes it) | `&mut TensorBuffer` | `&TensorMeta`; no staged function |
//! | a plain argument: an owned type, `&[T]`, `&str`, `Option` of these | the same | the same |
//! | `#[kernel_only]` before a plain argument | the same | staged functions only |
//!
//! Plain arguments are fields of the op's type (`&[T]` is kept as `SmallVec<[T; 4]>`, `&str` as `String`). They need
//! `Clone`, `Debug`, and `PlanKey` unless they are kernel-only. Results are `LocalArray`, a tuple of up to four,
//! `Vec<LocalArray>` where the call decides how many there are (the shape function says so), or `()` for an op that only
//! writes; the public function has `Tensor`s there. A kernel that ends in `;` instead of a body
//! declares an op that has kernels per backend only: on others, calls are an error that says so.
//!
//! # The list
//!
//! Where the rows come from is exactly one of `[..]`, `rows` and `rule`; the rest is in any order.
//!
//! | item | meaning |
//! |---|---|
//! | `["m k, k n -> m n", ..]` | factors, one text for each combination of numbers of dimensions; the first that fits counts |
//! | `reduce(k = sum, ..)` | factors that a result lacks; their rows leave it `Partial` of sum, max, min or prod |
//! | `whole(k, ..)` | factors that are never split |
//! | `linear(each)` | a `Partial(sum)` in any one operand passes through, the others being whole (matmul, mul) |
//! | `linear(together)` | `Partial(sum)` in all operands at once passes through (add, concat) |
//! | `linear(x, ..)` | the same in the operands named, each alone |
//! | `rows = [(S(0), R) => S(0), ..]` | rows literally; several results as a tuple |
//! | `rule = path` | `fn(cx: &RuleCx, plain..) -> Result<Rows>`, all of them |
//! | `rule_also = path` | the same, for rows behind those of factors or `rows` (staged ones, above all) |
//! | `shape = path` | `fn(operands.., plain..) -> Result<TensorMeta>` (a tuple, `Vec`, `()`, `Metas`); factors have their own |
//! | `cases = path` | `fn(cases: &mut Cases)`, valid calls to check the op with; factors without plain arguments have their own |
//! | `stages = path` | `fn(cx: &mut StageCx, operands.., plain..) -> Result<Shards>` (a tuple, a vector), for staged rows |
//! | `crate = path` | a crate that re-exports `sharding_core::__private`, where `sharding_core` itself is no dependency |
//!
//! ## Factors
//!
//! Operands with commas between them, `->`, results with commas between them; a tensor is a list of names with spaces
//! between them, one for each axis. Axes of one name have one extent and are split together. `...` stands for any
//! number of axes, which broadcast, aligned at the last of them. A slice operand's axes are those of each of its
//! tensors. Nothing between commas is a zero-dimensional tensor.
//!
//! Rows are tried in this order: all Replicated, the axes of `...` from the first to the last, the factors of the
//! results in their order, reduced factors, `linear` rows. All dtypes are equal; `shape = path` lifts that.
//!
//! ```
//! # use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule, ReduceOp};
//! /// The largest of each row; rows may be split, and so may what they run over.
//! #[sharding_rule(["... n -> ..."], reduce(n = max))]
//! pub fn largest(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
//!     let last = x.shape().len() - 1;
//!     let kept = cx.reduce(ReduceOp::Max, x, &[last])?;
//!     cx.reshape(&kept, &x.shape().without(last))
//! }
//! ```
//!
//! ## Literal rows
//!
//! Placements are `R`, `S(n)` (`S(-1)` is the last axis), `P`, `P(max)`, `P(min)`, `P(prod)` and `U`. One stands for
//! each declared operand; for a slice it counts for each of its tensors, for an absent optional operand it is left out.
//! For a vector of results one counts for all of them.
//! The all-Replicated row is added in front, unless an operand is written. A row that names an axis which a tensor does
//! not have is skipped.
//!
//! ```
//! # use sharding_core::{KernelCx, Result, TensorMeta, backend::LocalArray, sharding_rule};
//! #[sharding_rule(rows = [(S(0), R) => S(0), (S(1), S(0)) => P, (P, R) => P], shape = project_shape)]
//! pub fn project(cx: &mut KernelCx, x: &LocalArray, weight: &LocalArray) -> Result<LocalArray> {
//!     cx.dot(x, weight)
//! }
//! fn project_shape(x: &TensorMeta, weight: &TensorMeta) -> Result<TensorMeta> {
//!     Ok(TensorMeta::new(x.dtype, [x.shape.extent(0), weight.shape.extent(1)]))
//! }
//! ```
//!
//! ## Functions
//!
//! ```
//! # use sharding_core::{DType, KernelCx, Result, TensorMeta, backend::LocalArray, sharding_rule};
//! # use sharding_core::op::{CaseOperand, Cases};
//! # use sharding_core::rule::{Rows, RuleCx, pass_through_rows, replicated_rows};
//! /// The first `len` elements of an axis.
//! #[sharding_rule(rule = first_rule, shape = first_shape, cases = first_cases)]
//! pub fn first(cx: &mut KernelCx, x: &LocalArray, axis: usize, len: usize) -> Result<LocalArray> {
//!     Ok(x.slice(axis, 0, len))
//! }
//! fn first_rule(cx: &RuleCx<'_>, axis: usize, _len: usize) -> Result<Rows> {
//!     let mut rows = Rows::new();
//!     replicated_rows(cx, &mut rows);
//!     pass_through_rows(cx, 0, &mut rows, |from| (from != axis).then_some(from));
//!     Ok(rows)
//! }
//! fn first_shape(x: &TensorMeta, axis: usize, len: usize) -> Result<TensorMeta> {
//!     x.shape.axis(axis as isize)?;
//!     Ok(TensorMeta::new(x.dtype, x.shape.with_extent(axis, len.min(x.shape.extent(axis)))))
//! }
//! fn first_cases(cases: &mut Cases) {
//!     cases.add([CaseOperand::new(DType::F32, [5, 7])], first { axis: 1, len: 3 });
//! }
//! ```
//!
//! # Another kernel for a backend
//!
//! `#[kernel(op = path, backend = "cuda")]` (and `crate = path`) in any crate. The operands are those of the op, in its
//! order, by name and type; of the plain arguments those that the kernel needs, by name. Whatever differs is an error
//! while compiling.
//!
//! ```
//! # use sharding_core::{KernelCx, Result, backend::LocalArray, kernel, sharding_rule};
//! #[sharding_rule(["m -> m"])]
//! pub fn negative(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray>;
//!
//! #[kernel(op = negative, backend = "cuda")]
//! fn negative_cuda(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
//!     cx.unary(sharding_core::backend::UnaryOp::Neg, x)
//! }
//! ```
//!
//! # Misuse
//!
//! Every misuse is a compile error at the guilty token that says what to write; all of one item are reported at once.
//!
//! ```compile_fail
//! # use sharding_core::{KernelCx, Result, backend::LocalArray, sharding_rule};
//! // column 3: the factor `k` is missing from a result: add `reduce(k = sum)` ..
//! #[sharding_rule(["m k, k n -> m n"])]
//! pub fn product(cx: &mut KernelCx, lhs: &LocalArray, rhs: &LocalArray) -> Result<LocalArray> {
//!     cx.dot(lhs, rhs)
//! }
//! ```

mod arguments;
mod constant;
mod expand;
mod factor;
mod kernel;
mod signature;
mod state;
#[cfg(test)]
mod tests;
mod validate;

use arguments::{Arguments, Source};
use proc_macro2::TokenStream;
use signature::{Checked, Item, Operand};
use validate::{self as say, Errors};

/// Declares an op of the local kernel it stands on; the crate's documentation has the grammar.
#[proc_macro_attribute]
pub fn sharding_rule(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    op(arguments.into(), item.into()).into()
}

/// Gives an op another kernel on one backend: `#[kernel(op = path, backend = "cuda")]`; see the crate's documentation.
#[proc_macro_attribute]
pub fn kernel(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    kernel::kernel(arguments.into(), item.into()).into()
}

/// Makes a struct of tensors a state: dotted names, specs, layouts without memory, initialisation and loading.
///
/// `sharding_core::state` has the list of what may stand in `#[sharding(..)]`, and an example. A spec is of tensors; on a field whose
/// type is a parameter, that is checked where the struct is used:
///
/// ```compile_fail,E0080
/// # use sharding_core::{AbstractMesh, ShardedState, Tensor, state::abstract_sharded_state};
/// #[derive(ShardedState)]
/// struct Linear {
///     weight: Tensor,
/// }
/// #[derive(ShardedState)]
/// struct Wrapped<T> {
///     // Fine for a tensor; a struct has the specs of its own fields.
///     #[sharding("tp")]
///     inner: T,
/// }
/// let mesh = AbstractMesh::new([2], ["tp"])?;
/// abstract_sharded_state::<Wrapped<Linear>>(&mesh, |_| unreachable!())?;
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[proc_macro_derive(ShardedState, attributes(sharding))]
pub fn sharded_state(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    state::state(item.into()).into()
}

/// `#[sharding_rule]` on any token streams.
fn op(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let parsed: Item = match syn::parse2(item.clone()) {
        Ok(parsed) => parsed,
        Err(error) => {
            errors.push(say::not_a_function("sharding_rule", &error));
            let errors = errors.into_tokens();
            return quote::quote!(#errors #item);
        }
    };
    if let Some(receiver) = parsed.sig.receiver() {
        // Only a method can have one, and nothing that is made of an op can stand where methods do.
        errors.push(say::no_self(receiver));
        let errors = errors.into_tokens();
        return quote::quote!(#errors #item);
    }
    let arguments = arguments::parse(arguments, &mut errors);
    let signature = signature::check(&parsed.sig, "sharding_rule", &mut errors);
    let rows = rows(&arguments, &signature, &mut errors);
    let op = expand::Op {
        item: &parsed,
        signature: &signature,
        arguments: &arguments,
        rows,
        valid: errors.is_empty(),
    };
    let code = expand::expand(&op);
    let errors = errors.into_tokens();
    quote::quote!(#errors #code)
}

/// Checks the list against the signature.
fn rows<'a>(arguments: &'a Arguments, signature: &Checked, errors: &mut Errors) -> expand::Rows<'a> {
    let written = signature.operands().find(|(_, kind)| *kind == Operand::Written);
    if let (Some(stages), Some((name, _))) = (&arguments.stages, written) {
        errors.push(say::stages_and_written(stages, name));
    }
    match &arguments.source {
        Source::Factors(texts) => match factor::rule(texts, arguments, signature, errors) {
            Some(rule) => expand::Rows::Factors(rule),
            None => expand::Rows::Nothing,
        },
        Source::Rows(rows) => {
            let declared: Vec<_> = signature.operands().collect();
            for row in rows.iter().filter(|_| !signature.broken) {
                if row.operands.len() != declared.len() {
                    errors.push(say::row_operands(row, &declared));
                }
                let results = signature.results.count.unwrap_or(1);
                if row.results.len() != results {
                    errors.push(say::row_results(row, signature.results.count));
                }
            }
            expand::Rows::Literal(rows)
        }
        Source::Function(path) => {
            if let Some(also) = &arguments.rule_also {
                errors.push(say::also_with_rule(also));
            }
            expand::Rows::Function(path)
        }
        Source::Nothing => expand::Rows::Nothing,
    }
}
