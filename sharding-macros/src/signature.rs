//! The local kernel's signature: operands, plain arguments and results.

use crate::validate::{self as say, Errors};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, GenericArgument, Pat, PathArguments, ReturnType, Safety, Signature, Type, Visibility,
};

/// The function that the attribute stands on. A body of `None` is a semicolon.
pub(crate) struct Item {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Option<proc_macro2::Group>,
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig = input.parse()?;
        let body =
            if input.parse::<Option<syn::Token![;]>>()?.is_some() { None } else { Some(input.parse()?) };
        Ok(Self { attrs, vis, sig, body })
    }
}

/// How an operand is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Tensor,
    Scalar,
    Many,
    Optional,
    Written,
}

/// How a plain argument is kept in the op's struct.
#[derive(Clone)]
pub(crate) enum Keep {
    Owned(Box<Type>),
    Slice(Box<Type>),
    Str,
    OptionalSlice(Box<Type>),
    OptionalStr,
}

/// What a parameter is.
#[derive(Clone)]
pub(crate) enum Role {
    Operand(Operand),
    Plain { keep: Keep, kernel_only: bool },
}

/// A parameter behind `cx`.
#[derive(Clone)]
pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) role: Role,
}

impl Param {
    /// The argument of the author's functions, from the op's struct in a variable `__args`. Errors stand on its type.
    pub(crate) fn load(&self, keep: &Keep) -> TokenStream {
        keep.load(&self.name, self.ty.span().resolved_at(Span::call_site()))
    }
}

/// How many results there are (`None`: as many as a call decides), and where that is written.
#[derive(Clone, Copy)]
pub(crate) struct Results {
    pub(crate) count: Option<usize>,
    pub(crate) span: Span,
}

/// A checked signature.
pub(crate) struct Checked {
    pub(crate) params: Vec<Param>,
    pub(crate) results: Results,
    /// The signature without the attribute's own markers.
    pub(crate) plain: Signature,
    /// Whether something was refused: then `params` are those that could be understood.
    pub(crate) broken: bool,
}

impl Checked {
    pub(crate) fn operands(&self) -> impl Iterator<Item = (&Ident, Operand)> {
        self.params.iter().filter_map(|param| match param.role {
            Role::Operand(kind) => Some((&param.name, kind)),
            Role::Plain { .. } => None,
        })
    }
    pub(crate) fn plain(&self) -> impl Iterator<Item = (&Param, &Keep, bool)> {
        self.params.iter().filter_map(|param| match &param.role {
            Role::Plain { keep, kernel_only } => Some((param, keep, *kernel_only)),
            Role::Operand(_) => None,
        })
    }
}

/// Checks a kernel's signature; `attribute` is `sharding_rule` or `kernel`.
pub(crate) fn check(sig: &Signature, attribute: &str, errors: &mut Errors) -> Checked {
    let before = errors.len();
    let mut plain = sig.clone();
    if let Some(token) = &sig.asyncness {
        errors.push(say::no_async(token));
    }
    match &sig.safety {
        Safety::Default => {}
        safety => errors.push(say::no_unsafe(safety)),
    }
    if let Some(abi) = &sig.abi {
        errors.push(say::no_abi(abi));
    }
    if let Some(token) = &sig.constness {
        errors.push(say::no_const(token));
    }
    if !sig.generics.params.is_empty() {
        errors.push(say::no_generics(&sig.generics));
    } else if let Some(clause) = &sig.generics.where_clause {
        errors.push(say::no_generics(clause));
    }
    if let Some(variadic) = &sig.variadic {
        errors.push(say::no_variadic(variadic));
    }

    let mut params = Vec::new();
    let mut inputs = plain.inputs.iter_mut();
    match inputs.next() {
        Some(FnArg::Typed(first)) if is_context(&first.ty) => {}
        // Refused before.
        Some(FnArg::Receiver(_)) => {}
        Some(FnArg::Typed(first)) => {
            let ty = first.ty.clone();
            errors.push(say::no_context(&ty));
            params.extend(param(first, errors));
        }
        None => errors.push(say::no_parameters(sig.paren_token.span.join())),
    }
    for input in inputs {
        match input {
            FnArg::Receiver(_) => {}
            FnArg::Typed(typed) => params.extend(param(typed, errors)),
        }
    }
    let results = results(sig, errors);
    let checked = Checked { params, results, plain, broken: errors.len() > before };
    if !checked.broken && checked.operands().next().is_none() {
        errors.push(say::no_operand(&sig.ident, attribute));
        return Checked { broken: true, ..checked };
    }
    checked
}

/// One parameter; takes the markers off it.
fn param(typed: &mut syn::PatType, errors: &mut Errors) -> Option<Param> {
    let mut scalar = None;
    let mut kernel_only = None;
    typed.attrs.retain(|attr| {
        let slot = if attr.path().is_ident("scalar") {
            &mut scalar
        } else if attr.path().is_ident("kernel_only") {
            &mut kernel_only
        } else {
            return true;
        };
        if !matches!(attr.meta, syn::Meta::Path(_)) {
            errors.push(say::marker_with_arguments(attr));
        }
        if slot.is_some() {
            errors.push(say::marker_twice(attr));
        }
        *slot = Some(attr.clone());
        false
    });
    let name = match &*typed.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() && pat.mutability.is_none() => {
            Some(pat.ident.clone())
        }
        pattern => {
            errors.push(say::no_pattern(pattern));
            None
        }
    };
    let role = match role_of(&typed.ty) {
        Ok(role) => Some(role),
        Err(error) => {
            errors.push(error);
            None
        }
    };
    let role = match (role?, scalar, kernel_only) {
        (Role::Operand(Operand::Tensor), Some(_), None) => Role::Operand(Operand::Scalar),
        (role, Some(attr), _) => {
            errors.push(say::scalar_misplaced(&attr));
            role
        }
        (Role::Plain { keep, .. }, None, Some(_)) => Role::Plain { keep, kernel_only: true },
        (role, None, Some(attr)) => {
            errors.push(say::kernel_only_misplaced(&attr));
            role
        }
        (role, None, None) => role,
    };
    Some(Param { name: name?, ty: (*typed.ty).clone(), role })
}

/// What a parameter of this type is.
fn role_of(ty: &Type) -> Result<Role, syn::Error> {
    let plain = |keep| Ok(Role::Plain { keep, kernel_only: false });
    let ty = peel(ty);
    match ty {
        Type::Reference(reference) => {
            if let Some(lifetime) = &reference.lifetime {
                return Err(say::no_lifetime(lifetime));
            }
            let inner = peel(&reference.elem);
            if reference.mutability.is_some() {
                return match last(inner).as_deref() {
                    Some("LocalArray") => Ok(Role::Operand(Operand::Written)),
                    Some("Tensor" | "TensorBuffer") => Err(say::tensor_argument(ty, "&mut LocalArray")),
                    _ => Err(say::mutable_argument(ty)),
                };
            }
            match inner {
                Type::Slice(slice) => match peel(&slice.elem) {
                    Type::Reference(element) if is_shared_array(element) => Ok(Role::Operand(Operand::Many)),
                    element if mentions_array(element) => Err(say::slice_of_arrays(ty)),
                    element if is_borrowing(element) => Err(say::borrowing_argument(element)),
                    element => plain(Keep::Slice(element.clone().into())),
                },
                inner => match last(inner).as_deref() {
                    Some("LocalArray") => Ok(Role::Operand(Operand::Tensor)),
                    Some("str") => plain(Keep::Str),
                    Some("Tensor") => Err(say::tensor_argument(ty, "&LocalArray")),
                    _ => Err(say::reference_argument(ty, inner)),
                },
            }
        }
        Type::Path(path) => match last(ty).as_deref() {
            Some("LocalArray") => Err(say::array_by_value(ty)),
            Some("Tensor") => Err(say::tensor_argument(ty, "&LocalArray")),
            Some("TensorBuffer") => Err(say::tensor_argument(ty, "&mut LocalArray")),
            Some("Option") => match first_argument(path).map(peel) {
                Some(Type::Reference(inner)) if is_shared_array(inner) => {
                    Ok(Role::Operand(Operand::Optional))
                }
                Some(Type::Reference(inner)) if inner.mutability.is_none() && inner.lifetime.is_none() => {
                    match peel(&inner.elem) {
                        Type::Slice(slice) if !is_borrowing(&slice.elem) && !mentions_array(&slice.elem) => {
                            plain(Keep::OptionalSlice(slice.elem.clone()))
                        }
                        elem if last(elem).as_deref() == Some("str") => plain(Keep::OptionalStr),
                        _ => Err(say::optional_argument(ty)),
                    }
                }
                Some(inner) if mentions_array(inner) || is_borrowing(inner) => {
                    Err(say::optional_argument(ty))
                }
                _ => plain(Keep::Owned(ty.clone().into())),
            },
            _ if mentions_array(ty) => Err(say::array_inside(ty)),
            _ if is_borrowing(ty) => Err(say::borrowing_argument(ty)),
            _ => plain(Keep::Owned(ty.clone().into())),
        },
        Type::Array(_) | Type::Tuple(_) => {
            if mentions_array(ty) {
                Err(say::array_inside(ty))
            } else if is_borrowing(ty) {
                Err(say::borrowing_argument(ty))
            } else {
                plain(Keep::Owned(ty.clone().into()))
            }
        }
        Type::ImplTrait(_) => Err(say::impl_trait_argument(ty)),
        _ => Err(say::unsupported_argument(ty)),
    }
}

/// The number of results of `Result<..>`.
fn results(sig: &Signature, errors: &mut Errors) -> Results {
    let ReturnType::Type(_, ty) = &sig.output else {
        errors.push(say::no_result(&sig.ident));
        return Results { count: Some(0), span: sig.ident.span() };
    };
    let span = ty.span();
    let inner = match peel(ty) {
        Type::Path(path) if last(peel(ty)).as_deref() == Some("Result") => first_argument(path),
        _ => None,
    };
    let Some(inner) = inner.map(peel) else {
        errors.push(say::result_type(ty));
        return Results { count: Some(0), span };
    };
    let is_array = |ty: &Type| last(peel(ty)).as_deref() == Some("LocalArray");
    let count = match inner {
        Type::Tuple(tuple) if tuple.elems.len() > 4 => {
            errors.push(say::too_many_results(inner));
            Some(tuple.elems.len())
        }
        Type::Tuple(tuple) => {
            if let Some(element) = tuple.elems.iter().find(|element| !is_array(element)) {
                errors.push(say::result_element(element));
            } else if tuple.elems.len() == 1 {
                errors.push(say::result_type(inner));
            }
            Some(tuple.elems.len())
        }
        inner if is_array(inner) => Some(1),
        Type::Path(path)
            if last(inner).as_deref() == Some("Vec") && first_argument(path).is_some_and(is_array) =>
        {
            None
        }
        inner => {
            errors.push(say::result_element(inner));
            Some(1)
        }
    };
    Results { count, span }
}

pub(crate) fn is_context(ty: &Type) -> bool {
    matches!(peel(ty), Type::Reference(reference)
        if reference.mutability.is_some() && last(peel(&reference.elem)).as_deref() == Some("KernelCx"))
}

fn is_shared_array(reference: &syn::TypeReference) -> bool {
    reference.mutability.is_none()
        && reference.lifetime.is_none()
        && last(peel(&reference.elem)).as_deref() == Some("LocalArray")
}

/// The type inside the parentheses and invisible groups that macros leave.
fn peel(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            _ => return ty,
        };
    }
}

/// The last name of a path.
fn last(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last().map(|s| s.ident.to_string()),
        _ => None,
    }
}

fn first_argument(path: &syn::TypePath) -> Option<&Type> {
    match &path.path.segments.last()?.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            })
        }
        _ => None,
    }
}

/// Whether the type's text has a reference, a lifetime or an opaque type in it.
fn is_borrowing(ty: &Type) -> bool {
    any_token(ty.to_token_stream(), &|token| match token {
        TokenTree::Punct(punct) => matches!(punct.as_char(), '&' | '\''),
        TokenTree::Ident(ident) => ident == "impl" || ident == "dyn",
        _ => false,
    })
}

/// Whether the type's text names a local array.
fn mentions_array(ty: &Type) -> bool {
    any_token(
        ty.to_token_stream(),
        &|token| matches!(token, TokenTree::Ident(ident) if ident == "LocalArray" || ident == "LocalArrays"),
    )
}

fn any_token(tokens: TokenStream, test: &dyn Fn(&TokenTree) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => any_token(group.stream(), test),
        token => test(&token),
    })
}

impl Keep {
    /// The type of the field, under the path of generated code.
    pub(crate) fn field(&self, path: &TokenStream) -> TokenStream {
        match self {
            Keep::Owned(ty) => quote!(#ty),
            Keep::Slice(ty) => quote!(#path::SmallVec<[#ty; 4]>),
            Keep::Str => quote!(::std::string::String),
            Keep::OptionalSlice(ty) => quote!(::core::option::Option<#path::SmallVec<[#ty; 4]>>),
            Keep::OptionalStr => quote!(::core::option::Option<::std::string::String>),
        }
    }
    /// The field's value from the argument of the public function.
    pub(crate) fn store(&self, name: &Ident) -> TokenStream {
        match self {
            Keep::Owned(_) => quote!(#name),
            Keep::Slice(_) | Keep::Str => quote!(#name: ::core::convert::From::from(#name)),
            Keep::OptionalSlice(_) | Keep::OptionalStr => {
                quote!(#name: #name.map(::core::convert::From::from))
            }
        }
    }
    /// The argument of the author's functions from the field.
    fn load(&self, name: &Ident, span: Span) -> TokenStream {
        match self {
            Keep::Owned(_) => quote_spanned!(span=> ::core::clone::Clone::clone(&__args.#name)),
            Keep::Slice(_) | Keep::Str => quote_spanned!(span=> &*__args.#name),
            Keep::OptionalSlice(_) | Keep::OptionalStr => quote_spanned!(span=> __args.#name.as_deref()),
        }
    }
}
