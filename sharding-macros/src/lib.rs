//! The attributes `#[sharding_rule]` and `#[kernel]`.

mod arguments;
mod expand;
mod factor;
mod kernel;
mod signature;
mod validate;

use arguments::{Arguments, Source};
use proc_macro2::TokenStream;
use signature::{Checked, Item, Operand};
use validate::{self as say, Errors};

/// Declares an op: see the [crate](self).
#[proc_macro_attribute]
pub fn sharding_rule(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    op(arguments.into(), item.into()).into()
}

/// Gives an op another kernel on one backend: see the [crate](self).
#[proc_macro_attribute]
pub fn kernel(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    kernel::kernel(arguments.into(), item.into()).into()
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
                if row.results.len() != signature.results.count {
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
