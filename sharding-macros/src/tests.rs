//! Expansions as text: `tests/expand/NAME.rs` becomes `NAME.expanded.rs`. `TRYBUILD=overwrite` writes what is there.

use crate::signature::Item;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use std::path::Path;
use syn::parse::{ParseStream, Parser};

/// Expands the functions of a file that holds nothing else.
fn expanded(text: &str) -> String {
    let expand = |input: ParseStream<'_>| {
        let mut code = TokenStream::new();
        while !input.is_empty() {
            let mut item: Item = input.parse()?;
            let at = item
                .attrs
                .iter()
                .position(|attr| attr.path().is_ident("sharding_rule") || attr.path().is_ident("kernel"));
            let attr = item.attrs.remove(at.expect("an attribute of this crate"));
            let Item { attrs, vis, sig, body } = item;
            let body = body.map_or(quote!(;), |body| body.to_token_stream());
            let item = quote!(#(#attrs)* #vis #sig #body);
            let arguments = attr.meta.require_list()?.tokens.clone();
            code.extend(if attr.path().is_ident("kernel") {
                crate::kernel::kernel(arguments, item)
            } else {
                crate::op(arguments, item)
            });
        }
        Ok(code)
    };
    let code = expand.parse_str(text).unwrap();
    prettyplease::unparse(&syn::parse2(code).unwrap())
}

/// Expands the structs of a file that holds nothing else, as states.
fn expanded_states(text: &str) -> String {
    let expand = |input: ParseStream<'_>| {
        let mut code = TokenStream::new();
        while !input.is_empty() {
            code.extend(crate::state::state(input.parse::<syn::DeriveInput>()?.to_token_stream()));
        }
        Ok(code)
    };
    let code = expand.parse_str(text).unwrap();
    prettyplease::unparse(&syn::parse2(code).unwrap())
}

fn check(name: &str) {
    check_by(name, expanded);
}

fn check_by(name: &str, expanded: fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expand");
    let text = std::fs::read_to_string(folder.join(name).with_extension("rs")).unwrap();
    let have = expanded(&text);
    let wanted = folder.join(name).with_extension("expanded.rs");
    if std::env::var_os("TRYBUILD").is_some_and(|mode| mode == "overwrite") {
        std::fs::write(wanted, have).unwrap();
    } else {
        let wanted = std::fs::read_to_string(wanted).unwrap();
        assert!(have == wanted, "the expansion of {name} changed; it is now:\n{have}");
    }
}

#[test]
fn factors() {
    check("factors");
}

#[test]
fn rows() {
    check("rows");
}

#[test]
fn functions() {
    check("functions");
}

#[test]
fn kernels() {
    check("kernels");
}

/// What is refused leaves its items, without registering them.
#[test]
fn refused() {
    check("refused");
}

#[test]
fn states() {
    check_by("states", expanded_states);
}

/// Every file there is one of the above.
#[test]
fn none_is_left_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expand");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 12);
}
