//! `#[kernel]`: another kernel of an op on one backend.

use crate::constant::operand_kind;
use crate::expand::{Fields, kernel_call, private, results};
use crate::signature::{self, Item};
use crate::validate::{self as say, Errors};
use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Path, Token};

/// What the attribute says.
struct Arguments {
    op: Option<Path>,
    backend: Option<LitStr>,
    krate: Path,
}

/// `#[kernel]` on any token streams.
pub(crate) fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let parsed: Item = match syn::parse2(item.clone()) {
        Ok(parsed) => parsed,
        Err(error) => {
            errors.push(say::not_a_function("kernel", &error));
            let errors = errors.into_tokens();
            return quote!(#errors #item);
        }
    };
    if let Some(receiver) = parsed.sig.receiver() {
        errors.push(say::no_self(receiver));
        let errors = errors.into_tokens();
        return quote!(#errors #item);
    }
    let arguments = parse(arguments, &mut errors);
    let signature = signature::check(&parsed.sig, "kernel", &mut errors);
    if parsed.body.is_none() {
        errors.push(say::kernel_body(&parsed.sig.ident));
    }
    let Item { attrs, vis, body, .. } = &parsed;
    let plain = &signature.plain;
    let function = body.as_ref().map(|body| quote!(#(#attrs)* #vis #plain #body));
    let (Some(op), Some(backend), true) = (&arguments.op, &arguments.backend, errors.is_empty()) else {
        let errors = errors.into_tokens();
        let unused = (!signature.broken).then(|| quote!(#[allow(dead_code)])).filter(|_| function.is_some());
        let function = function.filter(|_| !signature.broken);
        return quote!(#errors #unused #function);
    };

    let p = private(&arguments.krate);
    let name = &parsed.sig.ident;
    let all = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    let checks = signature.operands().enumerate().map(|(i, (ident, kind))| {
        let text = ident.unraw().to_string();
        let message = say::kernel_operand(&text);
        let (i, kind) = (Literal::usize_unsuffixed(i), operand_kind(kind));
        quote_spanned!(ident.span()=> const _: () =
            ::core::assert!(__DEF.declares(#i, #text, #p::OperandKind::#kind), #message);)
    });
    let count = Literal::usize_unsuffixed(signature.operands().count());
    let results = results(&signature);
    let (count_message, results_message) = (say::kernel_operand_count(), say::kernel_results());
    let count = quote_spanned!(name.span()=> const _: () =
        ::core::assert!(__DEF.operands.len() == #count, #count_message););
    let results = quote_spanned!(signature.results.span=> const _: () =
        ::core::assert!(__DEF.gives(#results), #results_message););
    let call = kernel_call(&quote!(#name), &signature, Fields::Foreign, &p);
    quote! {
        #function
        #(#all)*
        const _: () = {
            const __DEF: &#p::OpDef = <#op as #p::Op>::DEF;
            #(#checks)*
            #count
            #results
            #[allow(unused_variables)]
            fn __run(
                __cx: &mut #p::KernelCx<'_>,
                __operands: #p::Grouped<'_, &#p::LocalArray>,
                __written: &mut [#p::LocalArray],
                __args: &dyn ::core::any::Any,
                __results: &mut #p::LocalArrays,
            ) -> #p::Result<()> {
                let __args: &<#op as #p::Op>::Args = #p::typed(__DEF, __args)?;
                #call
            }
            #p::inventory::submit! {
                #p::KernelDef {
                    op: __DEF,
                    backend: #backend,
                    run: __run,
                    at: (::core::file!(), ::core::line!()),
                }
            }
        };
    }
}

/// Parses the list; what is wrong is reported and left out.
fn parse(tokens: TokenStream, errors: &mut Errors) -> Arguments {
    let mut arguments = Arguments { op: None, backend: None, krate: syn::parse_quote!(::sharding_core) };
    let before = errors.len();
    let mut seen: Vec<Ident> = Vec::new();
    let result = (|input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Err(error) = item(input, &mut arguments, &mut seen) {
                errors.push(error);
                while !input.is_empty() && !input.peek(Token![,]) {
                    input.parse::<TokenTree>()?;
                }
            } else if !input.is_empty() && !input.peek(Token![,]) {
                let token = input.parse::<TokenTree>()?;
                return Err(say::expected_comma(&token));
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(())
    })
    .parse2(tokens);
    if let Err(error) = result {
        errors.push(error);
    }
    if errors.len() == before {
        if arguments.op.is_none() {
            errors.push(say::kernel_missing("op", "path::of::the_op"));
        }
        if arguments.backend.is_none() {
            errors.push(say::kernel_missing("backend", "\"cuda\""));
        }
    }
    arguments
}

fn item(input: ParseStream<'_>, arguments: &mut Arguments, seen: &mut Vec<Ident>) -> syn::Result<()> {
    let Ok(key) = input.call(Ident::parse_any) else {
        return Err(say::kernel_keys(&input.parse::<TokenTree>()?));
    };
    if seen.contains(&key) {
        return Err(say::key_twice(&key));
    }
    if key != "op" && key != "backend" && key != "crate" {
        return Err(say::kernel_keys(&key));
    }
    if !input.peek(Token![=]) {
        return Err(say::key_equals(&key));
    }
    input.parse::<Token![=]>()?;
    if key == "backend" {
        let Ok(name) = input.parse::<LitStr>() else { return Err(say::backend_value(&key)) };
        if name.value().is_empty() {
            return Err(say::backend_value(&name));
        }
        arguments.backend = Some(name);
    } else {
        let Ok(path) = input.call(Path::parse_mod_style) else { return Err(say::kernel_path(&key)) };
        if key == "op" {
            arguments.op = Some(path);
        } else {
            arguments.krate = path;
        }
    }
    seen.push(key);
    Ok(())
}
