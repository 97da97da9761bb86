//! What the attributes say.

use crate::validate::{self as say, Errors};
use proc_macro2::{Ident, Span, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprArray, LitStr, Member, Meta, Path, Token, Type, Visibility};

/// The most axes of a tensor.
const MOST: usize = 16;

/// A field of the struct.
pub(super) struct Field<'a> {
    pub(super) member: Member,
    pub(super) vis: &'a Visibility,
    pub(super) ty: &'a Type,
    /// Its part of dotted names.
    pub(super) name: String,
    pub(super) name_span: Span,
    pub(super) role: Role,
}

/// What it is.
pub(super) enum Role {
    /// No state.
    Skip,
    /// A state.
    State { spec: Spec, shape: Option<Vec<Expr>>, dtype: Option<Ident> },
}

/// Where the sharding of its tensors comes from.
pub(super) enum Spec {
    Nothing,
    Placed,
    /// The names of the mesh axes of each tensor axis, and where they are written.
    Entries(Vec<Vec<LitStr>>),
}

/// What was read of the lists of one field.
#[derive(Default)]
struct List {
    skip: Option<Ident>,
    placed: Option<Ident>,
    entries: Option<Vec<Vec<LitStr>>>,
    name: Option<LitStr>,
    shape: Option<ExprArray>,
    dtype: Option<Ident>,
    seen: Vec<Ident>,
}

/// The lists `#[sharding(..)]` among attributes.
fn lists<'a>(attrs: &'a [Attribute], errors: &mut Errors) -> Vec<&'a syn::MetaList> {
    let mut lists = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("sharding")) {
        match &attr.meta {
            Meta::List(list) if list.tokens.is_empty() => errors.push(say::state_empty_list(list)),
            Meta::List(list) => lists.push(list),
            other => errors.push(say::state_empty_list(other)),
        }
    }
    lists
}

/// The crate that a struct names, or the core.
pub(super) fn krate(attrs: &[Attribute], errors: &mut Errors) -> Path {
    let mut krate: Option<Path> = None;
    for list in lists(attrs, errors) {
        let parsed = (|input: ParseStream<'_>| {
            let Ok(key) = input.call(Ident::parse_any) else {
                return Err(say::state_struct_keys(&input.parse::<TokenTree>()?));
            };
            if key != "crate" || !input.peek(Token![=]) {
                return Err(say::state_struct_keys(&key));
            }
            input.parse::<Token![=]>()?;
            let path = input.call(Path::parse_mod_style)?;
            input.parse::<Option<Token![,]>>()?;
            match input.is_empty() {
                true => Ok(path),
                false => Err(say::state_struct_keys(&input.parse::<TokenTree>()?)),
            }
        })
        .parse2(list.tokens.clone());
        match parsed {
            Ok(path) if krate.is_none() => krate = Some(path),
            Ok(path) => errors.push(say::state_twice(&path, "crate")),
            Err(error) => errors.push(error),
        }
    }
    krate.unwrap_or_else(|| syn::parse_quote!(::sharding_core))
}

/// A field with its attributes; what is wrong is reported.
pub(super) fn field<'a>(index: usize, field: &'a syn::Field, errors: &mut Errors) -> Field<'a> {
    let mut list = List::default();
    for one in lists(&field.attrs, errors) {
        let mut entries: Option<Vec<Vec<LitStr>>> = None;
        let parsed = (|input: ParseStream<'_>| {
            while !input.is_empty() {
                item(input, &mut list, &mut entries)?;
                if !input.is_empty() && !input.peek(Token![,]) {
                    return Err(say::expected_comma(&input.parse::<TokenTree>()?));
                }
                input.parse::<Option<Token![,]>>()?;
            }
            Ok(())
        })
        .parse2(one.tokens.clone());
        if let Err(error) = parsed {
            errors.push(error);
            // What the rest of the list says is not known.
            return skipped(index, field);
        }
        match (entries, &list.entries) {
            (Some(_), Some(_)) => errors.push(say::state_two_specs(one)),
            (Some(entries), None) => {
                check(&entries, one, errors);
                list.entries = Some(entries);
            }
            (None, _) => {}
        }
    }
    let role = role(&list, errors);
    let (name, name_span) = match (&list.name, &field.ident) {
        (Some(name), _) => (name.value(), name.span()),
        (None, Some(ident)) => (ident.unraw().to_string(), ident.span()),
        (None, None) => (index.to_string(), field.ty.span()),
    };
    if let Some(given) = list.name.as_ref().filter(|_| name.split('.').any(str::is_empty)) {
        errors.push(say::state_empty_name(given));
    }
    Field { name, name_span, role, ..skipped(index, field) }
}

fn skipped(index: usize, field: &syn::Field) -> Field<'_> {
    let member = match &field.ident {
        Some(ident) => Member::Named(ident.clone()),
        None => Member::from(index),
    };
    Field {
        member,
        vis: &field.vis,
        ty: &field.ty,
        name: String::new(),
        name_span: Span::call_site(),
        role: Role::Skip,
    }
}

/// Checks what the items of a field say together.
fn role(list: &List, errors: &mut Errors) -> Role {
    let others = list.seen.iter().find(|key| *key != "skip");
    if let Some(skip) = &list.skip {
        if list.entries.is_some() || others.is_some() {
            errors.push(say::state_skip_and_more(skip));
        }
        return Role::Skip;
    }
    if let (Some(placed), Some(_)) = (&list.placed, &list.entries) {
        errors.push(say::state_placed_and_spec(placed));
    }
    let shape = list.shape.as_ref().map(|shape| shape.elems.iter().cloned().collect::<Vec<Expr>>());
    if let (Some(given), Some(extents)) = (&list.shape, &shape) {
        let axes = list.entries.as_ref().map_or(0, Vec::len);
        if extents.len() > MOST {
            errors.push(say::state_shape_axes(given, extents.len()));
        } else if axes > extents.len() {
            errors.push(say::state_shape_and_spec(given, extents.len(), axes));
        }
    }
    let spec = match (&list.placed, &list.entries) {
        (Some(_), _) => Spec::Placed,
        (None, Some(entries)) => Spec::Entries(entries.clone()),
        (None, None) => Spec::Nothing,
    };
    Role::State { spec, shape, dtype: list.dtype.clone() }
}

/// Checks the entries of a spec.
fn check(entries: &[Vec<LitStr>], list: &syn::MetaList, errors: &mut Errors) {
    if entries.len() > MOST {
        errors.push(say::state_entries(list, entries.len()));
    }
    let mut seen: Vec<String> = Vec::new();
    for name in entries.iter().flatten() {
        let value = name.value();
        if value.is_empty() {
            errors.push(say::state_empty_axis(name));
        } else if seen.contains(&value) {
            errors.push(say::state_axis_twice(name));
        }
        seen.push(value);
    }
}

/// One item of a list.
fn item(input: ParseStream<'_>, list: &mut List, entries: &mut Option<Vec<Vec<LitStr>>>) -> syn::Result<()> {
    if input.peek(LitStr) {
        entries.get_or_insert_default().push(vec![input.parse()?]);
        return Ok(());
    }
    if input.peek(syn::token::Paren) {
        let content;
        let parens = syn::parenthesized!(content in input);
        let mut names = Vec::new();
        while !content.is_empty() {
            let Ok(name) = content.parse::<LitStr>() else {
                return Err(say::state_tuple_item(&content.parse::<TokenTree>()?));
            };
            names.push(name);
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        if names.is_empty() {
            return Err(say::state_empty_tuple(parens.span.join()));
        }
        entries.get_or_insert_default().push(names);
        return Ok(());
    }
    let Ok(key) = input.call(Ident::parse_any) else {
        return Err(say::state_item(&input.parse::<TokenTree>()?));
    };
    if key == "None" {
        entries.get_or_insert_default().push(Vec::new());
        return Ok(());
    }
    if list.seen.contains(&key) {
        return Err(say::state_twice(&key, &key.to_string()));
    }
    match key.to_string().as_str() {
        "skip" => list.skip = Some(key.clone()),
        "placed" => list.placed = Some(key.clone()),
        "name" => list.name = Some(value(input, &key, "\"w\"")?),
        "shape" => list.shape = Some(value(input, &key, "[4, 8]")?),
        "dtype" => list.dtype = Some(value(input, &key, "BF16")?),
        _ => return Err(say::state_item(&key)),
    }
    list.seen.push(key);
    Ok(())
}

/// What stands behind `key =`.
fn value<T: syn::parse::Parse>(input: ParseStream<'_>, key: &Ident, example: &str) -> syn::Result<T> {
    if !input.peek(Token![=]) {
        return Err(say::state_value(key, key, example));
    }
    input.parse::<Token![=]>()?;
    let at = input.fork();
    match input.parse() {
        Ok(value) => Ok(value),
        Err(_) => match at.parse::<TokenTree>() {
            Ok(token) => Err(say::state_value(&token, key, example)),
            Err(_) => Err(say::state_value(key, key, example)),
        },
    }
}
