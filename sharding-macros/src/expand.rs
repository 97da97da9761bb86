//! The code that `#[sharding_rule]` makes.

use crate::arguments::{Arguments, Row, Source};
use crate::constant::{factors, literal_row, operand_kind};
use crate::factor::Rule;
use crate::signature::{Checked, Item, Keep, Operand, Role, is_context};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Path};

/// Where the rows come from, after all checks.
pub(crate) enum Rows<'a> {
    Factors(Rule),
    Literal(&'a [Row]),
    Function(&'a Path),
    Nothing,
}

/// All that the code is made from. With `valid` false something was reported: the items are there so that nothing
/// else fails for their absence, but nothing is registered, and no function of the author is called.
pub(crate) struct Op<'a> {
    pub(crate) item: &'a Item,
    pub(crate) signature: &'a Checked,
    pub(crate) arguments: &'a Arguments,
    pub(crate) rows: Rows<'a>,
    pub(crate) valid: bool,
}

/// The author's attributes, by the item that gets them.
#[derive(Default)]
struct Attributes<'a> {
    function: Vec<&'a Attribute>,
    kernel: Vec<&'a Attribute>,
    all: Vec<&'a Attribute>,
}

impl<'a> Attributes<'a> {
    fn of(attrs: &'a [Attribute]) -> Self {
        let mut sorted = Self::default();
        for attr in attrs {
            let is = |name| attr.path().is_ident(name);
            if is("cfg") {
                sorted.all.push(attr);
            } else if ["allow", "warn", "deny", "forbid"].into_iter().any(is) {
                sorted.function.push(attr);
                sorted.kernel.push(attr);
            } else if is("expect") {
                sorted.kernel.push(attr);
            } else if !is("track_caller") {
                sorted.function.push(attr);
            }
        }
        sorted
    }
}

/// The path of generated code's names.
pub(crate) fn private(krate: &Path) -> TokenStream {
    quote!(#krate::__private)
}

/// The public function, the op's type, and everything behind it.
pub(crate) fn expand(op: &Op<'_>) -> TokenStream {
    let p = private(&op.arguments.krate);
    let attributes = Attributes::of(&op.item.attrs);
    let function = function(op, &p, &attributes);
    let structure = structure(op, &p, &attributes);
    let implementation = implementation(op, &p, &attributes);
    quote!(#function #structure #implementation)
}

/// The public function.
fn function(op: &Op<'_>, p: &TokenStream, attributes: &Attributes<'_>) -> TokenStream {
    let Item { vis, sig, .. } = op.item;
    let name = &sig.ident;
    let mut parameters = Vec::new();
    let mut operands = Vec::new();
    for param in &op.signature.params {
        let (ident, ty) = (&param.name, &param.ty);
        let Role::Operand(kind) = param.role else {
            parameters.push(quote!(#ident: #ty));
            continue;
        };
        let (ty, operand) = match kind {
            Operand::Tensor => (quote!(&#p::Tensor), quote!(#p::Operand::Tensor(#ident))),
            Operand::Many => (quote!(&[#p::Tensor]), quote!(#p::Operand::Many(#ident))),
            Operand::Optional => {
                (quote!(::core::option::Option<&#p::Tensor>), quote!(#p::Operand::Optional(#ident)))
            }
            Operand::Written => (quote!(&mut #p::TensorBuffer), quote!(#p::Operand::Written(#ident))),
            Operand::Scalar => (
                quote!(impl ::core::convert::Into<#p::Operand<'operand>>),
                quote!(::core::convert::Into::<#p::Operand<'operand>>::into(#ident)),
            ),
        };
        parameters.push(quote!(#ident: #ty));
        operands.push(operand);
    }
    // Opaque types in argument position cannot leave the lifetime out.
    let scalars = op.signature.operands().any(|(_, kind)| kind == Operand::Scalar);
    let mut generics = scalars.then(|| quote!(<'operand>));
    let (result, finish) = match op.signature.results.count {
        Some(0) => (quote!(()), quote!(.map(|_| ()))),
        Some(1) => (quote!(#p::Tensor), quote!(.and_then(#p::Results::one))),
        None => (quote!(::std::vec::Vec<#p::Tensor>), quote!(.map(|results| results.all().into_vec()))),
        Some(n) => {
            let types = std::iter::repeat_n(quote!(#p::Tensor), n);
            let names: Vec<_> = (0..n).map(|i| format_ident!("result_{i}")).collect();
            (quote!((#(#types),*)), quote!(.and_then(#p::Results::array).map(|[#(#names),*]| (#(#names),*))))
        }
    };
    let fields = op.signature.plain().map(|(param, keep, _)| keep.store(&param.name));
    let mut body = quote!(#p::dispatch::<#name>(&mut [#(#operands),*], #name { #(#fields),* }) #finish);
    if op.signature.broken {
        let text = name.to_string();
        body = quote!(::core::result::Result::Err(#p::not_compiled(#text)));
        parameters = refused_parameters(op, &parameters);
        let declared = &sig.generics.params;
        generics = match (scalars, declared.is_empty()) {
            (true, _) => Some(quote!(<'operand, #declared>)),
            (false, false) => Some(quote!(<#declared>)),
            (false, true) => None,
        };
    }
    let lint = (parameters.len() > 7).then(|| quote!(#[allow(clippy::too_many_arguments)]));
    let unused = op.signature.broken.then(|| quote!(#[allow(unused_variables)]));
    let Attributes { function, all, .. } = attributes;
    quote! {
        #(#all)*
        #(#function)*
        #lint
        #unused
        #[track_caller]
        #vis fn #name #generics (#(#parameters),*) -> #p::Result<#result> {
            #body
        }
    }
}

/// The parameters of a signature in which something was refused: those that were understood as they would be, the
/// others as they stand, so that calls still have the right number of arguments.
fn refused_parameters(op: &Op<'_>, understood: &[TokenStream]) -> Vec<TokenStream> {
    let known = |pat: &syn::Pat| match pat {
        syn::Pat::Ident(pat) => op.signature.params.iter().position(|param| param.name == pat.ident),
        _ => None,
    };
    let typed = op.item.sig.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(typed) if !is_context(&typed.ty) => Some(typed),
        _ => None,
    });
    typed
        .map(|typed| match known(&typed.pat).and_then(|i| understood.get(i)) {
            Some(parameter) => parameter.clone(),
            None => {
                let ty = &typed.ty;
                quote!(_: #ty)
            }
        })
        .collect()
}

/// The op's type: its plain arguments.
fn structure(op: &Op<'_>, p: &TokenStream, attributes: &Attributes<'_>) -> TokenStream {
    let Item { vis, sig, .. } = op.item;
    let name = &sig.ident;
    let all = &attributes.all;
    // Refused type parameters are nowhere declared for a field.
    let has_fields = sig.generics.params.is_empty();
    let plain = || op.signature.plain().filter(|_| has_fields);
    let fields = plain().map(|(param, keep, _)| {
        let ident = &param.name;
        let ty = keep.field(p);
        let doc = format!("The argument `{}`.", ident.unraw());
        quote!(#[doc = #doc] #vis #ident: #ty)
    });
    let keys = plain().filter(|(_, _, kernel_only)| !kernel_only).map(|(param, _, _)| {
        let ident = &param.name;
        let span = param.ty.span().resolved_at(Span::call_site());
        quote_spanned!(span=> #p::KeyWriter::put(key, &self.#ident);)
    });
    let doc = format!("The op [`{0}`](fn@{0}) and its plain arguments.", name.unraw());
    quote! {
        #(#all)*
        #[doc = #doc]
        #[allow(non_camel_case_types)]
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #vis struct #name { #(#fields),* }

        #(#all)*
        impl #p::OpArgs for #name {
            #[allow(unused_variables)]
            fn key(&self, key: &mut #p::KeyWriter) {
                #(#keys)*
            }
            fn as_any(&self) -> &dyn ::core::any::Any {
                self
            }
            fn boxed(&self) -> ::std::boxed::Box<dyn #p::OpArgs> {
                ::std::boxed::Box::new(::core::clone::Clone::clone(self))
            }
        }
    }
}

/// The kernel, the `Op` implementation and the registration.
fn implementation(op: &Op<'_>, p: &TokenStream, attributes: &Attributes<'_>) -> TokenStream {
    let name = &op.item.sig.ident;
    let all = &attributes.all;
    let text = name.unraw().to_string();
    let operands = op.signature.operands().map(|(ident, kind)| {
        let ident = ident.unraw().to_string();
        let kind = operand_kind(kind);
        quote!(#p::OperandDef { name: #ident, kind: #p::OperandKind::#kind })
    });
    let results = results(op.signature);
    let rule = match &op.rows {
        Rows::Factors(rule) => Some(factors(rule, p)),
        Rows::Literal(_) | Rows::Function(_) | Rows::Nothing => None,
    };
    let kernel_item = kernel_item(op, attributes);
    let Bodies { shape, rows, kernel, stages, cases } = bodies(op, p, &text);
    let register = op.valid.then(|| quote!(#p::inventory::submit! { *<#name as #p::Op>::DEF }));
    quote! {
        #(#all)*
        const _: () = {
            #rule
            #kernel_item

            #[allow(unused_variables)]
            impl #p::Op for #name {
                type Args = Self;
                const DEF: &'static #p::OpDef = &#p::OpDef::of::<Self>(
                    #text,
                    &[#(#operands),*],
                    #results,
                    (::core::file!(), ::core::line!()),
                );
                fn shape(__operands: #p::Grouped<'_, #p::TensorMeta>, __args: &Self) -> #p::Result<#p::Metas> {
                    #shape
                }
                fn rows(__cx: &#p::RuleCx<'_>, __args: &Self, __rows: &mut #p::Rows) -> #p::Result<()> {
                    #rows
                }
                fn kernel(
                    __cx: &mut #p::KernelCx<'_>,
                    __operands: #p::Grouped<'_, &#p::LocalArray>,
                    __written: &mut [#p::LocalArray],
                    __args: &Self,
                    __results: &mut #p::LocalArrays,
                ) -> #p::Result<()> {
                    #kernel
                }
                fn stages(
                    __cx: &mut #p::StageCx<'_>,
                    __operands: #p::Grouped<'_, #p::Shards>,
                    __args: &Self,
                ) -> #p::Result<::std::vec::Vec<#p::Shards>> {
                    #stages
                }
                fn cases(__cases: &mut #p::Cases) {
                    #cases
                }
            }
            #register
        };
    }
}

struct Bodies {
    shape: TokenStream,
    rows: TokenStream,
    kernel: TokenStream,
    stages: TokenStream,
    cases: TokenStream,
}

/// The bodies of the `Op` functions.
fn bodies(op: &Op<'_>, p: &TokenStream, text: &str) -> Bodies {
    let Op { signature, arguments, .. } = op;
    let Arguments { shape, cases, stages, rule_also, source, .. } = arguments;
    if !op.valid {
        // The author's functions are named, so that they do not count as unused.
        let rule = if let Source::Function(path) = source { Some(path) } else { None };
        let named = [shape, cases, stages, rule_also].into_iter().flatten().chain(rule);
        let refused = quote!(::core::result::Result::Err(#p::not_compiled(#text)));
        return Bodies {
            shape: refused.clone(),
            rows: refused.clone(),
            kernel: refused.clone(),
            stages: refused,
            cases: quote!(#(let _ = #named;)*),
        };
    }
    let operands = operands(signature);
    let plain: Vec<_> = signature
        .plain()
        .filter(|(_, _, kernel_only)| !kernel_only)
        .map(|(param, keep, _)| param.load(keep))
        .collect();
    let shape = match shape {
        Some(path) => {
            let span = path.span().resolved_at(Span::call_site());
            quote_spanned!(span=> ::core::result::Result::Ok(#p::IntoMetas::into_metas(#path(#(#operands,)* #(#plain),*)?)))
        }
        None => quote!(__RULE.shape(<Self as #p::Op>::DEF.operands, __operands)),
    };
    let append = |path: &Path| {
        let span = path.span().resolved_at(Span::call_site());
        quote_spanned!(span=> #p::Rows::append(__rows, #path(__cx, #(#plain),*)?);)
    };
    let also = rule_also.as_ref().map(append);
    let rows = match &op.rows {
        Rows::Factors(_) => quote!(__RULE.rows(__cx, __rows)?; #also),
        Rows::Literal(list) => {
            let list = list.iter().map(|row| literal_row(row, p));
            quote!(#p::literal_rows(__cx, &[#(#list),*], __rows); #also)
        }
        Rows::Function(path) => append(path),
        Rows::Nothing => TokenStream::new(),
    };
    let stages = match stages {
        Some(path) => {
            let all = signature.plain().map(|(param, keep, _)| param.load(keep));
            let span = path.span().resolved_at(Span::call_site());
            quote_spanned!(span=> ::core::result::Result::Ok(#p::IntoShards::into_shards(#path(__cx, #(#operands,)* #(#all),*)?)))
        }
        None => quote!(::core::result::Result::Err(#p::no_stages(#text))),
    };
    let name = &op.item.sig.ident;
    let cases = match cases {
        Some(path) => quote!(#path(__cases);),
        None if matches!(op.rows, Rows::Factors(_)) && signature.plain().next().is_none() => {
            quote!(__RULE.cases(<Self as #p::Op>::DEF.operands, #name {}, __cases);)
        }
        None => TokenStream::new(),
    };
    let kernel = match op.item.body {
        Some(_) => kernel_call(&quote!(__kernel), signature, Fields::Own, p),
        None => quote!(::core::result::Result::Err(#p::no_portable_kernel(__cx))),
    };
    Bodies { shape, rows: quote!(#rows ::core::result::Result::Ok(())), kernel, stages, cases }
}

/// The number of results as the op's definition has it.
pub(crate) fn results(signature: &Checked) -> TokenStream {
    match signature.results.count {
        Some(n) => {
            let n = Literal::usize_unsuffixed(n);
            quote!(::core::option::Option::Some(#n))
        }
        None => quote!(::core::option::Option::None),
    }
}

/// The operands as shape and staged functions get them, from a variable `__operands`.
fn operands(signature: &Checked) -> Vec<TokenStream> {
    let operand = |(i, (_, kind)): (usize, (&Ident, Operand))| {
        let i = Literal::usize_unsuffixed(i);
        match kind {
            Operand::Tensor | Operand::Scalar | Operand::Written => quote!(__operands.one(#i)?),
            Operand::Many => quote!(__operands.many(#i)),
            Operand::Optional => quote!(__operands.optional(#i)),
        }
    };
    signature.operands().enumerate().map(operand).collect()
}

/// Whose signature made the fields of the op's struct.
#[derive(Clone, Copy)]
pub(crate) enum Fields {
    /// The same.
    Own,
    /// Another one, which may differ: types are compared by statements of their own, for a short error.
    Foreign,
}

/// The call of a typed kernel from the variables `__cx`, `__operands`, `__written`, `__args` and `__results`. Names of
/// ours have underscores, since authors' functions may be called `rows` or `cases`.
pub(crate) fn kernel_call(
    path: &TokenStream,
    signature: &Checked,
    fields: Fields,
    p: &TokenStream,
) -> TokenStream {
    let mut foreign = TokenStream::new();
    let mut written = Vec::new();
    let mut number = 0_usize;
    let mut values = Vec::new();
    for param in &signature.params {
        let i = Literal::usize_unsuffixed(number);
        let kind = match &param.role {
            Role::Plain { keep, .. } => {
                if let (Fields::Foreign, Keep::Owned(ty)) = (fields, keep) {
                    let span = ty.span().resolved_at(Span::call_site());
                    let (field, name) = (&param.name, format_ident!("argument_{}", values.len()));
                    foreign.extend(quote_spanned!(span=> let #name: &#ty = &__args.#field;));
                    values.push(quote!(::core::clone::Clone::clone(#name)));
                } else {
                    values.push(param.load(keep));
                }
                continue;
            }
            Role::Operand(kind) => *kind,
        };
        number += 1;
        values.push(match kind {
            Operand::Tensor | Operand::Scalar => quote!(__operands.one(#i)?),
            Operand::Many => quote!(__operands.many(#i)),
            Operand::Optional => quote!(__operands.optional(#i).copied()),
            Operand::Written => {
                let name = format_ident!("written_{}", written.len());
                written.push(name.clone());
                quote!(#name)
            }
        });
    }
    let written = (!written.is_empty()).then(|| quote!(let [#(#written),*] = #p::written(__written)?;));
    let names: Vec<_> =
        (0..signature.results.count.unwrap_or(1)).map(|i| format_ident!("result_{i}")).collect();
    let pattern = match &*names {
        [one] => quote!(#one),
        names => quote!((#(#names),*)),
    };
    let all = match signature.results.count {
        Some(_) => quote!(#(__results.push(#names);)*),
        None => quote!(#(__results.extend(#names);)*),
    };
    // A result of another `Result` type is reported where the author wrote it.
    let span = signature.results.span.resolved_at(Span::call_site());
    let call = quote_spanned!(span=> let #pattern = #path(__cx, #(#values),*)?;);
    quote! {
        #foreign
        #written
        #call
        #all
        ::core::result::Result::Ok(())
    }
}

/// The author's function, under a name of our own. Where the signature was refused it stays without its body, so that
/// what it imports counts as used.
fn kernel_item(op: &Op<'_>, attributes: &Attributes<'_>) -> Option<TokenStream> {
    let mut body = op.item.body.as_ref()?.to_token_stream();
    let mut sig = op.signature.plain.clone();
    sig.ident = Ident::new("__kernel", sig.ident.span());
    let kernel = &attributes.kernel;
    let mut unused = (!op.valid).then(|| quote!(#[allow(dead_code)]));
    if op.signature.broken {
        body = quote!({ ::core::unimplemented!() });
        unused = Some(quote!(#[allow(warnings)]));
        (sig.constness, sig.asyncness, sig.safety, sig.abi) = (None, None, syn::Safety::Default, None);
    }
    let lint = (sig.inputs.len() > 7).then(|| quote!(#[allow(clippy::too_many_arguments)]));
    Some(quote!(#(#kernel)* #unused #lint #sig #body))
}
