//! Declarations as constant data of the generated code.

use crate::arguments::{Place, Reduce, Row};
use crate::factor::{Alternative, Linear, Rule, Term};
use crate::signature::Operand;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;

/// The variant of `OperandKind`.
pub(crate) fn operand_kind(kind: Operand) -> Ident {
    let name = match kind {
        Operand::Tensor => "Tensor",
        Operand::Scalar => "Scalar",
        Operand::Many => "Many",
        Operand::Optional => "Optional",
        Operand::Written => "Written",
    };
    Ident::new(name, Span::call_site())
}

/// The variant of `ReduceOp`.
fn reduce_op(op: Reduce, p: &TokenStream) -> TokenStream {
    let name = Ident::new(
        match op {
            Reduce::Sum => "Sum",
            Reduce::Max => "Max",
            Reduce::Min => "Min",
            Reduce::Prod => "Prod",
        },
        Span::call_site(),
    );
    quote!(#p::ReduceOp::#name)
}

/// A rule in factor notation as constant data.
pub(crate) fn factors(rule: &Rule, p: &TokenStream) -> TokenStream {
    let alternatives = rule.alternatives.iter().map(|alternative| {
        let Alternative { names, operands, results, reduced, whole } = alternative;
        let terms = |lists: &[Vec<Term>]| {
            let list = lists.iter().map(|list| {
                let terms = list.iter().map(|term| match term {
                    Term::Dots => quote!(#p::Term::Dots),
                    Term::Factor(i) => {
                        let i = Literal::u8_unsuffixed(*i);
                        quote!(#p::Term::Factor(#i))
                    }
                });
                quote!(&[#(#terms),*])
            });
            quote!(&[#(#list),*])
        };
        let (operands, results) = (terms(operands), terms(results));
        let reduced = reduced.iter().map(|(factor, op)| {
            let (factor, op) = (Literal::u8_unsuffixed(*factor), reduce_op(*op, p));
            quote!((#factor, #op))
        });
        let whole = whole.iter().map(|factor| Literal::u8_unsuffixed(*factor));
        quote! {
            #p::Factors {
                names: &[#(#names),*],
                operands: #operands,
                results: #results,
                reduced: &[#(#reduced),*],
                whole: &[#(#whole),*],
            }
        }
    });
    let linear = rule.linear.iter().map(|linear| match linear {
        Linear::Each => quote!(#p::Linear::Each),
        Linear::Together => quote!(#p::Linear::Together),
        Linear::Operand(i) => {
            let i = Literal::u8_unsuffixed(*i);
            quote!(#p::Linear::Operand(#i))
        }
    });
    quote! {
        const __RULE: #p::FactorRule =
            #p::FactorRule { alternatives: &[#(#alternatives),*], linear: &[#(#linear),*] };
    }
}

/// A literal row as constant data.
pub(crate) fn literal_row(row: &Row, p: &TokenStream) -> TokenStream {
    let places = |places: &[Place]| {
        let list = places.iter().map(|place| match place {
            Place::R => quote!(#p::LiteralPlace::Replicated),
            Place::U => quote!(#p::LiteralPlace::Unknown),
            Place::P(op) => {
                let op = reduce_op(*op, p);
                quote!(#p::LiteralPlace::Partial(#op))
            }
            Place::S(axis) => {
                let axis = Literal::i8_unsuffixed(*axis);
                quote!(#p::LiteralPlace::Sharded(#axis))
            }
        });
        quote!(&[#(#list),*])
    };
    let (operands, results) = (places(&row.operands), places(&row.results));
    quote!(#p::LiteralRow { operands: #operands, results: #results })
}
