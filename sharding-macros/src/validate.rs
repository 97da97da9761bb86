//! Every message that a user of the attributes may read.
//!
//! A message says what is wrong at the token it stands on, and what to write. All misuses of one item are collected
//! and reported together.

use crate::arguments::{KEYS, Row};
use crate::factor::spelled;
use crate::signature::Operand;
use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{Attribute, Error, Lifetime, LitStr, Type};

/// What is wrong so far.
#[derive(Default)]
pub(crate) struct Errors(Vec<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        self.0.push(error);
    }
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// One `compile_error!` each.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.iter().map(Error::to_compile_error).collect()
    }
}

fn at(tokens: impl ToTokens, message: impl std::fmt::Display) -> Error {
    Error::new_spanned(tokens, message)
}

// The item.

pub(crate) fn not_a_function(attribute: &str, error: &Error) -> Error {
    let shape = if attribute == "kernel" {
        "fn name(cx: &mut KernelCx, ..) -> Result<LocalArray> { .. }"
    } else {
        "pub fn name(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> { .. }"
    };
    Error::new(
        error.span(),
        format!("#[{attribute}] stands on a free function, the local kernel: `{shape}` ({error})"),
    )
}

// The signature.

pub(crate) fn no_async(token: impl ToTokens) -> Error {
    at(token, "a local kernel is not async: remove `async`, kernels run to their end on one device")
}
pub(crate) fn no_unsafe(token: impl ToTokens) -> Error {
    at(
        token,
        "the public function of an op is safe: remove `unsafe`, and write an unsafe block with its reason in the body",
    )
}
pub(crate) fn no_abi(token: impl ToTokens) -> Error {
    at(token, "a local kernel is a Rust function: remove `extern`, and call the foreign function in the body")
}
pub(crate) fn no_const(token: impl ToTokens) -> Error {
    at(token, "a local kernel is not `const`: remove it")
}
pub(crate) fn no_generics(token: impl ToTokens) -> Error {
    at(
        token,
        "an op is not generic: remove the parameters; local arrays carry their dtype, `x.dtype()`, and the primitives of `cx` take any",
    )
}
pub(crate) fn no_variadic(token: impl ToTokens) -> Error {
    at(token, "write `xs: &[&LocalArray]` for any number of tensors")
}
pub(crate) fn no_self(token: impl ToTokens) -> Error {
    at(token, "an op is a free function, not a method: replace `self` by `x: &LocalArray`")
}
pub(crate) fn no_context(token: impl ToTokens) -> Error {
    at(
        token,
        "the first parameter of a local kernel is its context: write `cx: &mut KernelCx` before this one",
    )
}
pub(crate) fn no_parameters(span: Span) -> Error {
    Error::new(
        span,
        "a local kernel takes its context and at least one operand: write `cx: &mut KernelCx, x: &LocalArray`",
    )
}
pub(crate) fn no_operand(ident: &Ident, attribute: &str) -> Error {
    at(
        ident,
        format!(
            "#[{attribute}] needs an operand, from which the op takes its mesh: write `x: &LocalArray` behind `cx`"
        ),
    )
}
pub(crate) fn no_pattern(token: impl ToTokens) -> Error {
    at(
        token,
        "write a plain name here (`x: &LocalArray`): it is the operand's or argument's name in errors and reports",
    )
}
pub(crate) fn no_lifetime(lifetime: &Lifetime) -> Error {
    at(lifetime, format!("remove `{lifetime}`: parameters of a local kernel borrow for the call only"))
}

pub(crate) fn array_by_value(ty: &Type) -> Error {
    at(ty, "a local kernel borrows its operands: write `&LocalArray` (`&mut LocalArray` if the op writes it)")
}
pub(crate) fn array_inside(ty: &Type) -> Error {
    at(
        ty,
        "local arrays come as `&LocalArray`, `&[&LocalArray]` (any number), `Option<&LocalArray>` or `&mut LocalArray` (written); other parameters hold none",
    )
}
pub(crate) fn slice_of_arrays(ty: &Type) -> Error {
    at(
        ty,
        "any number of operands is `&[&LocalArray]`; one that is written is `&mut LocalArray`, each a parameter of its own",
    )
}
pub(crate) fn optional_argument(ty: &Type) -> Error {
    at(
        ty,
        "an optional operand is `Option<&LocalArray>`, an optional argument `Option<T>` with `T` owned, `Option<&[T]>` or `Option<&str>`",
    )
}
pub(crate) fn tensor_argument(ty: &Type, write: &str) -> Error {
    at(
        ty,
        format!(
            "a local kernel gets one device's arrays, the public function made of it takes tensors: write `{write}`"
        ),
    )
}
pub(crate) fn mutable_argument(ty: &Type) -> Error {
    at(ty, "only operands are written: `&mut LocalArray`; take an argument by value, `&[T]` or `&str`")
}
pub(crate) fn reference_argument(ty: &Type, inner: &Type) -> Error {
    let inner = inner.to_token_stream();
    at(
        ty,
        format!(
            "a plain argument is kept with the plan: take it by value (`{inner}`), or as `&[T]` or `&str`"
        ),
    )
}
pub(crate) fn borrowing_argument(ty: &Type) -> Error {
    at(
        ty,
        "a plain argument is kept with the plan and cannot borrow: write an owned type, such as `String` for `&str`",
    )
}
pub(crate) fn impl_trait_argument(ty: &Type) -> Error {
    at(
        ty,
        "an op is not generic: write the type itself; for a tensor or a number, `#[scalar] x: &LocalArray`",
    )
}
pub(crate) fn unsupported_argument(ty: &Type) -> Error {
    at(
        ty,
        "this cannot be an argument of an op: operands are `&LocalArray`, `&[&LocalArray]`, `Option<&LocalArray>` or `&mut LocalArray`, others owned types, `&[T]` or `&str`",
    )
}

pub(crate) fn marker_with_arguments(attr: &Attribute) -> Error {
    let name = attr.path().to_token_stream();
    at(attr, format!("write `#[{name}]`, it takes nothing"))
}
pub(crate) fn marker_twice(attr: &Attribute) -> Error {
    let name = attr.path().to_token_stream();
    at(attr, format!("`#[{name}]` is here twice: remove one"))
}
pub(crate) fn scalar_misplaced(attr: &Attribute) -> Error {
    at(
        attr,
        "`#[scalar]` lets an operand be a number instead of a tensor: it stands before `x: &LocalArray`; remove it here",
    )
}
pub(crate) fn kernel_only_misplaced(attr: &Attribute) -> Error {
    at(
        attr,
        "`#[kernel_only]` keeps a plain argument from rule and shape function: it does not stand before an operand; remove it",
    )
}

pub(crate) fn no_result(ident: &Ident) -> Error {
    at(
        ident,
        "a local kernel returns `Result<LocalArray>`, `Result<(LocalArray, LocalArray)>` for several results, or `Result<()>` if it only writes",
    )
}
pub(crate) fn result_type(ty: &Type) -> Error {
    at(
        ty,
        "write `Result<LocalArray>`, `Result<(LocalArray, LocalArray)>` for several results, or `Result<()>` for an op that only writes",
    )
}
pub(crate) fn result_element(ty: &Type) -> Error {
    at(
        ty,
        "a result of a local kernel is a `LocalArray`; several are a tuple, `(LocalArray, LocalArray)`, or a `Vec<LocalArray>`",
    )
}
pub(crate) fn too_many_results(ty: &Type) -> Error {
    at(ty, "a tuple has at most 4 results: return `Vec<LocalArray>`, or split the op in two")
}

// The list of the attribute.

fn list<T: std::fmt::Display>(words: impl IntoIterator<Item = T>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

pub(crate) fn no_source(span: Span) -> Error {
    Error::new(
        span,
        "say on which placements the op runs: factors `[\"m k, k n -> m n\"]`, literal rows `rows = [(S(0), R) => S(0)]`, or a function `rule = path`",
    )
}
pub(crate) fn two_sources(span: Span, first: &str, second: &str) -> Error {
    Error::new(
        span,
        format!(
            "the rows already come from `{first}`: remove that or `{second}` (`rule_also = path` adds rows to factors and literal rows)"
        ),
    )
}
pub(crate) fn no_shape(span: Span, name: &str) -> Error {
    Error::new(
        span,
        format!(
            "`{name}` does not say which shapes the results have: add `shape = path`, a `fn(x: &TensorMeta, ..) -> Result<TensorMeta>` of the operands and the plain arguments"
        ),
    )
}
pub(crate) fn also_with_rule(path: &syn::Path) -> Error {
    at(path, "`rule = path` gives all rows: add these there and remove `rule_also`")
}
pub(crate) fn stages_and_written(path: &syn::Path, operand: &Ident) -> Error {
    at(
        path,
        format!("a staged function cannot write `{operand}`: return a result instead, or remove `stages`"),
    )
}
pub(crate) fn only_with_factors(key: &Ident, source: &str) -> Error {
    at(
        key,
        format!(
            "`{key}` speaks of factors, and the rows come from `{source}`: remove it, or write the factors, `[\"m k, k n -> m n\"]`"
        ),
    )
}
pub(crate) fn expected_item(token: impl ToTokens) -> Error {
    at(token, format!("expected factors `[\"m k, k n -> m n\"]` or one of {}", list(KEYS)))
}
pub(crate) fn expected_comma(token: impl ToTokens) -> Error {
    at(token, "expected a comma before this")
}
pub(crate) fn bare_text(literal: &LitStr) -> Error {
    at(
        literal,
        format!(
            "factors are a list, one text for each number of dimensions: write `[{}]`",
            literal.to_token_stream()
        ),
    )
}
pub(crate) fn unknown_key(key: &Ident) -> Error {
    let name = key.to_string();
    let near = KEYS
        .iter()
        .find(|known| known.starts_with(&name) || name.starts_with(**known) || distance(known, &name) <= 2);
    let near = near.map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
    at(key, format!("unknown key `{name}`: the keys are {}{near}", list(KEYS)))
}
pub(crate) fn kernel_key(key: &Ident) -> Error {
    at(
        key,
        "the function's body is the portable kernel; for an op with kernels per backend only, end its signature with `;` instead of a body",
    )
}
pub(crate) fn key_twice(key: &Ident) -> Error {
    at(key, format!("`{key}` is here twice: remove one"))
}
pub(crate) fn key_equals(key: &Ident) -> Error {
    at(key, format!("write `{key} = ..`"))
}
pub(crate) fn key_parentheses(key: &Ident) -> Error {
    let example = if key == "reduce" {
        "reduce(k = sum)"
    } else if key == "linear" {
        "linear(each)"
    } else {
        "whole(k)"
    };
    at(key, format!("write `{example}`"))
}
pub(crate) fn path_value(key: &Ident, value: &TokenStream) -> Error {
    at(
        value,
        format!(
            "`{key}` takes the path of a {}: write `{key} = path`",
            if key == "crate" { "crate" } else { "function" }
        ),
    )
}

pub(crate) fn no_texts(span: Span) -> Error {
    Error::new(span, "write at least one text of factors, such as `[\"m k, k n -> m n\"]`")
}
pub(crate) fn factor_text(token: &TokenStream) -> Error {
    at(token, "expected a text of factors here, such as `\"m k, k n -> m n\"`")
}
pub(crate) fn reduce_item(token: &TokenStream) -> Error {
    at(
        token,
        "write the reduced factor and how its parts combine: `reduce(k = sum)`, with sum, max, min or prod",
    )
}
pub(crate) fn reduce_op(word: &Ident) -> Error {
    at(word, format!("parts do not combine by `{word}`: write sum, max, min or prod"))
}
pub(crate) fn linear_word(token: &TokenStream) -> Error {
    at(token, "write `linear(each)`, `linear(together)` or the names of operands")
}
pub(crate) fn whole_word(token: &TokenStream) -> Error {
    at(token, "write the names of the factors that are never split: `whole(k)`")
}
pub(crate) fn word_twice(word: &Ident) -> Error {
    at(word, format!("`{word}` is here twice: remove one"))
}

// Factors.

fn factor(literal: &LitStr, column: usize, message: impl std::fmt::Display) -> Error {
    at(literal, format!("column {column}: {message}"))
}

pub(crate) fn factor_no_arrow(literal: &LitStr) -> Error {
    at(literal, "no `->` between operands and results: write `\"m k, k n -> m n\"`")
}
pub(crate) fn factor_arrow_twice(literal: &LitStr, column: usize) -> Error {
    factor(
        literal,
        column,
        "a second `->`: operands are on its left and results on its right, each with commas between them",
    )
}
pub(crate) fn factor_character(literal: &LitStr, column: usize, character: char) -> Error {
    factor(
        literal,
        column,
        format!(
            "`{character}` is not part of the notation: write names (letters, digits and `_`, a letter first) with spaces between them, `...`, `,` and `->`"
        ),
    )
}
pub(crate) fn factor_operands(literal: &LitStr, found: usize, declared: &[(&Ident, Operand)]) -> Error {
    let names = declared.iter().map(|(name, kind)| format!("{name}: {}", spelled(*kind)));
    at(
        literal,
        format!(
            "the text has {}, the function takes {} ({}): write the axes of each, with commas between them",
            count(found, "operand"),
            declared.len(),
            list(names)
        ),
    )
}
pub(crate) fn factor_results(literal: &LitStr, found: usize, declared: usize) -> Error {
    at(
        literal,
        format!(
            "the text has {}, the function returns {declared}: write the axes of each behind `->`, with commas between them",
            count(found, "result")
        ),
    )
}
pub(crate) fn factor_vector(literal: &LitStr) -> Error {
    at(
        literal,
        "factors do not say how many results a `Vec<LocalArray>` has: write `rows = [..]` or `rule = path`, and `shape = path`",
    )
}
pub(crate) fn factor_repeated(literal: &LitStr, column: usize, name: &str) -> Error {
    if name == "..." {
        factor(literal, column, "a second `...` in one tensor: name the axes of one of them")
    } else {
        factor(
            literal,
            column,
            format!(
                "the factor `{name}` twice in one tensor: a row cannot split both axes, give them two names"
            ),
        )
    }
}
pub(crate) fn factor_from_nowhere(literal: &LitStr, column: usize, name: &str) -> Error {
    if name == "..." {
        factor(literal, column, "no operand has `...`: add it to one, or remove it")
    } else {
        factor(
            literal,
            column,
            format!(
                "no operand has the factor `{name}`: write a name from the left of `->`, with spaces between names; where the extent follows from arguments, `rule = path, shape = path`"
            ),
        )
    }
}
pub(crate) fn factor_lost(literal: &LitStr, column: usize, name: &str) -> Error {
    factor(
        literal,
        column,
        format!(
            "the factor `{name}` is missing from a result: add `reduce({name} = sum)` (or max, min, prod) if its parts combine so, `whole({name})` if it is never split, or write it behind `->`"
        ),
    )
}
pub(crate) fn factor_dots_lost(literal: &LitStr, column: usize) -> Error {
    factor(
        literal,
        column,
        "the axes of `...` are missing from a result: write `...` there too, or name them",
    )
}
pub(crate) fn factor_too_many(literal: &LitStr) -> Error {
    at(literal, "more than 255 factors")
}
pub(crate) fn unknown_factor(word: &Ident, key: &str) -> Error {
    at(word, format!("no operand has the factor `{word}`: name one of the text in `{key}(..)`"))
}
pub(crate) fn reduced_in_results(word: &Ident) -> Error {
    at(
        word,
        format!("the factor `{word}` is in every result, so nothing is reduced: remove it here, or there"),
    )
}
pub(crate) fn linear_operand(word: &Ident, operands: &[String]) -> Error {
    at(word, format!("`{word}` is not an operand: write `each`, `together` or one of {}", list(operands)))
}
pub(crate) fn linear_both(word: &Ident) -> Error {
    at(
        word,
        "an op is linear in each operand alone (a product) or in all together (a sum), not both: remove one",
    )
}
pub(crate) fn linear_not_sum(op: &Ident, word: &Ident) -> Error {
    at(
        op,
        format!(
            "`{op}` does not let sums pass through, so the op is not linear as `linear({word})` says: remove that"
        ),
    )
}

// `#[kernel]`.

pub(crate) fn kernel_keys(token: impl ToTokens) -> Error {
    at(
        token,
        "the keys of #[kernel] are `op`, `backend` and `crate`: write `#[kernel(op = path::of::the_op, backend = \"cuda\")]`",
    )
}
pub(crate) fn kernel_missing(key: &str, value: &str) -> Error {
    Error::new(
        Span::call_site(),
        format!("add `{key} = {value}`: #[kernel] gives an op another kernel on one backend"),
    )
}
pub(crate) fn backend_value(token: impl ToTokens) -> Error {
    at(token, "write the name of the backend's kind as text: `backend = \"cuda\"`")
}
pub(crate) fn kernel_path(key: &Ident) -> Error {
    if key == "op" {
        at(key, "write the path of a function that #[sharding_rule] stands on: `op = path::of::the_op`")
    } else {
        path_value(key, &key.to_token_stream())
    }
}
pub(crate) fn kernel_body(ident: &Ident) -> Error {
    at(ident, "a kernel for one backend needs a body")
}
/// Shown by a constant that fails to evaluate, so without the op's own names.
pub(crate) fn kernel_operand(name: &str) -> String {
    format!(
        "the op does not declare the operand `{name}` here, or not of this kind: write the operands in the op's order, with its names and types"
    )
}
pub(crate) fn kernel_operand_count() -> &'static str {
    "the op declares another number of operands: write the operands in the op's order, with its names and types"
}
pub(crate) fn kernel_results() -> &'static str {
    "the op declares another number of results: write the op's return type"
}

// Literal rows.

pub(crate) fn rows_value(key: &Ident) -> Error {
    at(key, "write `rows = [(S(0), R) => S(0), ..]`: a placement for each operand, and for each result")
}
pub(crate) fn row_arrow(token: &TokenStream) -> Error {
    at(token, "a row is `(S(0), R) => S(0)`: a placement for each operand, `=>`, and one for each result")
}
pub(crate) fn row_end(token: &TokenStream) -> Error {
    at(token, "expected a comma before this: rows are separated by commas")
}
pub(crate) fn place(token: &TokenStream) -> Error {
    at(
        token,
        "expected a placement: `R` (Replicated), `S(n)` (Sharded on tensor axis n), `P` or `P(max)` (Partial), `U` (Unknown)",
    )
}
pub(crate) fn partial_op(group: &Group) -> Error {
    at(group, "write `P` for a sum, or `P(max)`, `P(min)`, `P(prod)`")
}
pub(crate) fn axis_missing(word: &Ident) -> Error {
    at(word, "which tensor axis? write `S(0)`")
}
pub(crate) fn axis_number(group: &Group) -> Error {
    at(
        group,
        "write the tensor axis as a number, `S(0)`, or from the back, `S(-1)`; for an axis that depends on arguments: `rule = path`",
    )
}
pub(crate) fn axis_range(group: &Group) -> Error {
    at(group, "a tensor has at most 16 axes: write a number from -16 to 15")
}
pub(crate) fn row_operands(row: &Row, declared: &[(&Ident, Operand)]) -> Error {
    let names = list(declared.iter().map(|(name, _)| name));
    at(
        &row.operands_at,
        format!(
            "{} for {} ({names}): write one for each",
            count(row.operands.len(), "placement"),
            count(declared.len(), "operand")
        ),
    )
}
pub(crate) fn row_results(row: &Row, declared: Option<usize>) -> Error {
    let placements = count(row.results.len(), "placement");
    at(
        &row.results_at,
        match declared {
            Some(declared) => {
                format!("{placements} for {}: write one for each", count(declared, "result"))
            }
            None => format!("{placements} for a vector of results: write one, for all of them"),
        },
    )
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// The number of single-letter edits between two words.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let (mut diagonal, mut left) = (i, i + 1);
        for (slot, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let cost = (diagonal + usize::from(x != y)).min(left + 1).min(*slot + 1);
            diagonal = *slot;
            *slot = cost;
            left = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

// The derive.

pub(crate) fn state_enum(token: impl ToTokens) -> Error {
    at(
        token,
        "a state is a struct: the names of its tensors must not depend on its value; wrap the variants in `Option`s",
    )
}
pub(crate) fn state_union(token: impl ToTokens) -> Error {
    at(token, "a state is a struct: a union does not know what is in it")
}
pub(crate) fn state_empty_list(list: impl ToTokens) -> Error {
    at(
        list,
        "write what the field is: `#[sharding(\"tp\", None)]`, `#[sharding(skip)]`, or no attribute for a Replicated tensor",
    )
}
pub(crate) fn state_struct_keys(token: impl ToTokens) -> Error {
    at(token, "on the struct stands `#[sharding(crate = path)]` only; specs stand on its fields")
}
pub(crate) fn state_item(token: impl ToTokens) -> Error {
    at(
        token,
        "expected an entry of the spec (`\"tp\"`, `None`, `(\"dp\", \"tp\")`), `skip`, `placed`, `name = \"w\"`, `shape = [4, 8]` or `dtype = BF16`",
    )
}
pub(crate) fn state_tuple_item(token: impl ToTokens) -> Error {
    at(token, "the mesh axes that split one tensor axis are texts: `(\"dp\", \"tp\")`")
}
pub(crate) fn state_empty_tuple(span: Span) -> Error {
    Error::new(span, "no mesh axis splits this tensor axis: write `None`")
}
pub(crate) fn state_twice(token: impl ToTokens, key: &str) -> Error {
    at(token, format!("`{key}` is said twice: remove one"))
}
pub(crate) fn state_two_specs(list: impl ToTokens) -> Error {
    at(list, "the field has a spec already: write one list, with an entry for each tensor axis")
}
pub(crate) fn state_skip_and_more(skip: &Ident) -> Error {
    at(skip, "what is skipped is no state: remove `skip`, or all else")
}
pub(crate) fn state_placed_and_spec(placed: &Ident) -> Error {
    at(placed, "where the tensor lies is said by `placed` and by a spec: remove one")
}
pub(crate) fn state_shape_axes(shape: impl ToTokens, axes: usize) -> Error {
    at(shape, format!("a tensor has at most 16 axes, not {axes}: merge some"))
}
pub(crate) fn state_shape_and_spec(shape: impl ToTokens, axes: usize, entries: usize) -> Error {
    at(shape, format!("the spec has {entries} entries for a tensor of {axes} axes: write one for each axis"))
}
pub(crate) fn state_entries(list: impl ToTokens, entries: usize) -> Error {
    at(list, format!("a tensor has at most 16 axes; the spec has {entries} entries"))
}
pub(crate) fn state_empty_axis(name: &LitStr) -> Error {
    at(name, "the name of a mesh axis is empty: write `None` for a tensor axis that nothing splits")
}
pub(crate) fn state_axis_twice(name: &LitStr) -> Error {
    at(
        name,
        format!("the mesh axis {:?} splits twice: a mesh axis splits one tensor axis, once", name.value()),
    )
}
pub(crate) fn state_empty_name(name: &LitStr) -> Error {
    at(name, "a part of the name is empty: write `name = \"w\"`, or `name = \"attn.w\"` for two parts")
}
pub(crate) fn state_name_twice(name: &str, span: Span) -> Error {
    Error::new(span, format!("two fields have the name {name:?} in files: give one another `name = \"..\"`"))
}
pub(crate) fn state_value(token: impl ToTokens, key: &Ident, example: &str) -> Error {
    at(token, format!("write `{key} = {example}`"))
}
/// The text of an assertion in generated code.
pub(crate) fn state_spec_on_struct() -> &'static str {
    "a struct has the specs of its own fields: remove the spec here, and write them there"
}
