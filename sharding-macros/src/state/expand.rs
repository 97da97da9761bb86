//! The code that the derive makes.

use super::attribute::{Field, Role, Spec};
use crate::expand::private;
use crate::validate as say;
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Expr, LitStr, Path};

/// What the attribute of a state says.
struct State<'a> {
    field: &'a Field<'a>,
    /// The type of the field, which does not say `Self`.
    ty: TokenStream,
    spec: &'a Spec,
    shape: Option<&'a Vec<Expr>>,
    dtype: Option<&'a Ident>,
}

impl State<'_> {
    /// The value of `Declared`: all of it, or what is to be known of a state that is there.
    fn declared(&self, all: bool, p: &TokenStream) -> TokenStream {
        let spec = match self.spec {
            Spec::Nothing => None,
            Spec::Placed => Some(quote!(.placed())),
            Spec::Entries(entries) => {
                let entries = entries.iter().map(|names| entry(names, p));
                Some(
                    quote!(.spec(<#p::PartitionSpec as ::core::default::Default>::default()#(.with(#entries))*)),
                )
            }
        };
        let shape = self.shape.filter(|_| all).map(|extents| quote!(.shape([#(#extents),*] as [usize; _])));
        let dtype = self.dtype.filter(|_| all).map(|dtype| quote!(.dtype(#p::DType::#dtype)));
        quote!(#p::state::Declared::new() #spec #shape #dtype)
    }
}

/// The same tokens with a type in the place of `Self`, which is another one where the initialiser is declared.
fn named_self(tokens: TokenStream, own: &TokenStream) -> TokenStream {
    let one = |token: TokenTree| match token {
        TokenTree::Ident(ident) if ident == "Self" => quote_spanned!(ident.span()=> #own),
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), named_self(group.stream(), own));
            inner.set_span(group.span());
            TokenTree::Group(inner).into()
        }
        other => other.into(),
    };
    tokens.into_iter().map(one).collect()
}

/// Whether some token is this name.
fn says(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => says(&group.stream(), name),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// One entry of a spec.
fn entry(names: &[LitStr], p: &TokenStream) -> TokenStream {
    match names {
        [] => quote!(#p::SpecEntry::none()),
        [name] => quote!(#p::SpecEntry::from(#name)),
        names => quote!(#p::SpecEntry::several([#(#names),*])),
    }
}

pub(super) fn expand(item: &DeriveInput, fields: &[Field<'_>], named: bool, krate: &Path) -> TokenStream {
    let p = private(krate);
    let name = &item.ident;
    let own = {
        let (_, ty_generics, _) = item.generics.split_for_impl();
        quote!(#name #ty_generics)
    };
    let states: Vec<State<'_>> = fields
        .iter()
        .filter_map(|field| match &field.role {
            Role::Skip => None,
            Role::State { spec, shape, dtype } => {
                let ty = named_self(field.ty.to_token_stream(), &own);
                Some(State { field, ty, spec, shape: shape.as_ref(), dtype: dtype.as_ref() })
            }
        })
        .collect();
    // Of a generic struct, that its fields are states is for whoever uses it to show. Those that hold the struct itself are, if
    // the others are; to ask for it would be to ask without end.
    let mut generics = item.generics.clone();
    let generic = generics.type_params().next().is_some() || generics.const_params().next().is_some();
    if let Some(clause) = &mut generics.where_clause {
        for predicate in &mut clause.predicates {
            *predicate =
                syn::parse2(named_self(predicate.to_token_stream(), &own)).unwrap_or(predicate.clone());
        }
    }
    if generic {
        let clause = generics.make_where_clause();
        for State { ty, .. } in states.iter().filter(|state| !says(&state.ty, name)) {
            clause.predicates.push(syn::parse_quote_spanned!(ty.span()=> #ty: #p::ShardedState));
        }
    }
    let (impl_generics, ty_generics, clause) = generics.split_for_impl();
    let mut init_generics = generics.clone();
    init_generics.params.insert(0, syn::parse_quote!('__s));
    let (init_impl, init_ty, init_clause) = init_generics.split_for_impl();

    let takes_spec = |state: &State<'_>| {
        let (ty, message) = (&state.ty, say::state_spec_on_struct());
        quote_spanned!(ty.span()=> ::core::assert!(<#ty as #p::ShardedState>::TAKES_SPEC, #message))
    };
    let with_spec = || states.iter().filter(|state| !matches!(state.spec, Spec::Nothing)).map(takes_spec);
    // What a type parameter is, is known where the struct is used only.
    let checks = with_spec().filter(|_| !generic).map(|check| quote!(const _: () = #check;));
    let late: TokenStream = with_spec().filter(|_| generic).map(|check| quote!(const { #check };)).collect();
    let of = |state: &State<'_>| {
        let ty = &state.ty;
        quote_spanned!(ty.span()=> <#ty as #p::ShardedState>)
    };
    // The lifetime and the parameters must be used, whatever the fields are.
    let marker = quote!(::core::marker::PhantomData<(&'__s (), fn() -> #own)>);
    let (declaration, made): (TokenStream, TokenStream) = if named {
        let parts = states.iter().map(|state| {
            let (vis, member, of) = (state.field.vis, &state.field.member, of(state));
            quote!(#vis #member: #of::Init<'__s>)
        });
        let values = states.iter().map(|state| {
            let (member, of, name, declared) =
                (&state.field.member, of(state), &state.field.name, state.declared(true, &p));
            quote!(#member: #of::init_at(&__at.field(#name, #declared)))
        });
        (
            quote!(pub struct __Init #init_impl #init_clause { #(#parts,)* __state: #marker }),
            quote!(__Init { #(#values,)* __state: ::core::marker::PhantomData }),
        )
    } else {
        // Skipped fields keep their places, so that numbers are the same.
        let parts =
            fields.iter().map(|field| match states.iter().find(|state| std::ptr::eq(state.field, field)) {
                Some(state) => {
                    let (vis, of) = (field.vis, of(state));
                    quote!(#vis #of::Init<'__s>)
                }
                None => quote!(()),
            });
        let values =
            fields.iter().map(|field| match states.iter().find(|state| std::ptr::eq(state.field, field)) {
                Some(state) => {
                    let (of, name, declared) = (of(state), &field.name, state.declared(true, &p));
                    quote!(#of::init_at(&__at.field(#name, #declared)))
                }
                None => quote!(()),
            });
        (
            quote!(pub struct __Init #init_impl (#(#parts,)* #marker) #init_clause;),
            quote!(__Init(#(#values,)* ::core::marker::PhantomData)),
        )
    };
    let visits = |method: &str, reference: TokenStream| -> Vec<TokenStream> {
        let method = Ident::new(method, Span::call_site());
        states
            .iter()
            .map(|state| {
                let (member, of, name, declared) =
                    (&state.field.member, of(state), &state.field.name, state.declared(false, &p));
                quote!(#of::#method(#reference self.#member, &__at.field(#name, &#declared), __see);)
            })
            .collect()
    };
    let (visit, visit_mut) = (visits("visit", quote!(&)), visits("visit_mut", quote!(&mut)));
    quote! {
        const _: () = {
            #(#checks)*
            #[doc(hidden)]
            #[allow(missing_docs, dead_code, unreachable_pub, private_bounds, private_interfaces)]
            #declaration
            #[automatically_derived]
            #[allow(unused_variables)]
            impl #impl_generics #p::ShardedState for #name #ty_generics #clause {
                const TAKES_SPEC: bool = false;
                type Init<'__s> = __Init #init_ty;
                fn init_at<'__s>(__at: &#p::state::Site<'__s>) -> Self::Init<'__s> {
                    #late
                    #made
                }
                fn visit<'__a>(&'__a self, __at: &#p::state::StatePath<'_>, __see: &mut #p::state::See<'_, '__a>) {
                    #late
                    #(#visit)*
                }
                fn visit_mut<'__a>(
                    &'__a mut self,
                    __at: &#p::state::StatePath<'_>,
                    __see: &mut #p::state::SeeMut<'_, '__a>,
                ) {
                    #(#visit_mut)*
                }
            }
        };
    }
}
