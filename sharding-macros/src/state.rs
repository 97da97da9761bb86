//! `#[derive(ShardedState)]`.

mod attribute;
mod expand;

use crate::validate::{self as say, Errors};
use attribute::{Field, Role};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, Path};

/// The derive on any token stream.
pub(crate) fn state(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let item: DeriveInput = match syn::parse2(item) {
        Ok(item) => item,
        Err(error) => return error.to_compile_error(),
    };
    let fields = match &item.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            errors.push(say::state_enum(data.enum_token));
            return errors.into_tokens();
        }
        Data::Union(data) => {
            errors.push(say::state_union(data.union_token));
            return errors.into_tokens();
        }
    };
    let krate: Path = attribute::krate(&item.attrs, &mut errors);
    let fields: Vec<Field<'_>> =
        fields.iter().enumerate().map(|(i, field)| attribute::field(i, field, &mut errors)).collect();
    twice(&fields, &mut errors);
    if !errors.is_empty() {
        return errors.into_tokens();
    }
    let named = matches!(&item.data, Data::Struct(data) if matches!(data.fields, Fields::Named(_)));
    let code = expand::expand(&item, &fields, named, &krate);
    quote!(#code)
}

/// Reports two fields of one name.
fn twice(fields: &[Field<'_>], errors: &mut Errors) {
    let states: Vec<&Field<'_>> = fields.iter().filter(|field| !matches!(field.role, Role::Skip)).collect();
    for (i, field) in states.iter().enumerate() {
        if states.iter().take(i).any(|other| other.name == field.name) {
            errors.push(say::state_name_twice(&field.name, field.name_span));
        }
    }
}
