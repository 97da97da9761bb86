//! The text between the attribute's parentheses.

use crate::validate::{self as say, Errors};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{LitInt, LitStr, Path, Token, token};

/// How parts combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduce {
    Sum,
    Max,
    Min,
    Prod,
}

impl Reduce {
    pub(crate) fn parse(word: &Ident) -> syn::Result<Self> {
        match word.to_string().as_str() {
            "sum" => Ok(Self::Sum),
            "max" => Ok(Self::Max),
            "min" => Ok(Self::Min),
            "prod" => Ok(Self::Prod),
            _ => Err(say::reduce_op(word)),
        }
    }
}

/// A placement in a literal row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    R,
    S(i8),
    P(Reduce),
    U,
}

/// A literal row, with the tokens of either side for errors.
pub(crate) struct Row {
    pub(crate) operands: Vec<Place>,
    pub(crate) results: Vec<Place>,
    pub(crate) operands_at: TokenStream,
    pub(crate) results_at: TokenStream,
}

/// Where the rows come from.
pub(crate) enum Source {
    Factors(Vec<LitStr>),
    Rows(Vec<Row>),
    Function(Path),
    /// Refused or missing; errors were pushed.
    Nothing,
}

/// A reduced factor.
pub(crate) struct Reduced {
    pub(crate) factor: Ident,
    pub(crate) op: Reduce,
    pub(crate) op_at: Ident,
}

/// All that the attribute says.
pub(crate) struct Arguments {
    pub(crate) krate: Path,
    pub(crate) source: Source,
    pub(crate) reduce: Vec<Reduced>,
    pub(crate) whole: Vec<Ident>,
    pub(crate) linear: Vec<Ident>,
    pub(crate) shape: Option<Path>,
    pub(crate) cases: Option<Path>,
    pub(crate) stages: Option<Path>,
    pub(crate) rule_also: Option<Path>,
    /// Whether an item was refused, which may have been the one that another check misses.
    pub(crate) broken: bool,
}

/// What an item of the list may begin with.
pub(crate) const KEYS: [&str; 10] =
    ["reduce", "linear", "whole", "rows", "rule", "shape", "cases", "stages", "rule_also", "crate"];

/// Parses the list; what is wrong is reported and left out.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Arguments {
    let mut list = List {
        errors,
        seen: Vec::new(),
        source_at: None,
        factor_keys: Vec::new(),
        arguments: Arguments {
            krate: syn::parse_quote!(::sharding_core),
            source: Source::Nothing,
            reduce: Vec::new(),
            whole: Vec::new(),
            linear: Vec::new(),
            shape: None,
            cases: None,
            stages: None,
            rule_also: None,
            broken: false,
        },
    };
    let result = (|input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Err(error) = list.item(input) {
                list.errors.push(error);
                skip_item(input);
            } else if !input.is_empty() && !input.peek(Token![,]) {
                list.errors.push(say::expected_comma(&input.parse::<TokenTree>()?));
                skip_item(input);
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(())
    })
    .parse2(tokens);
    if let Err(error) = result {
        list.errors.push(error);
    }
    list.finish()
}

struct List<'a> {
    errors: &'a mut Errors,
    seen: Vec<String>,
    source_at: Option<(String, Span)>,
    factor_keys: Vec<Ident>,
    arguments: Arguments,
}

impl List<'_> {
    fn item(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if input.peek(token::Bracket) {
            let group: Group = input.parse()?;
            let texts = self.texts(&group);
            return self.source("[..]", group.span(), Source::Factors(texts));
        }
        if input.peek(LitStr) {
            return Err(say::bare_text(&input.parse::<LitStr>()?));
        }
        let Ok(key) = input.call(Ident::parse_any) else {
            return Err(say::expected_item(&input.parse::<TokenTree>()?));
        };
        let name = key.to_string();
        if name == "kernel" {
            return Err(say::kernel_key(&key));
        }
        if !KEYS.contains(&name.as_str()) {
            return Err(say::unknown_key(&key));
        }
        if self.seen.contains(&name) {
            return Err(say::key_twice(&key));
        }
        self.seen.push(name.clone());
        match name.as_str() {
            "reduce" | "linear" | "whole" => {
                let words = parenthesised(input, &key)?;
                self.factor_keys.push(key.clone());
                match name.as_str() {
                    "reduce" => self.reduce(&words),
                    "linear" => self.arguments.linear = self.words(&words, say::linear_word),
                    _ => self.arguments.whole = self.words(&words, say::whole_word),
                }
                Ok(())
            }
            "rows" => {
                equals(input, &key)?;
                let Ok(group) = bracketed(input) else { return Err(say::rows_value(&key)) };
                let rows = self.rows(&group);
                self.source(&name, key.span(), Source::Rows(rows))
            }
            "rule" => {
                let path = path(input, &key)?;
                self.source(&name, key.span(), Source::Function(path))
            }
            "crate" => {
                self.arguments.krate = path(input, &key)?;
                Ok(())
            }
            _ => {
                let path = Some(path(input, &key)?);
                match name.as_str() {
                    "shape" => self.arguments.shape = path,
                    "cases" => self.arguments.cases = path,
                    "stages" => self.arguments.stages = path,
                    _ => self.arguments.rule_also = path,
                }
                Ok(())
            }
        }
    }

    /// Takes one of the three forms, if it is the first.
    fn source(&mut self, name: &str, span: Span, source: Source) -> syn::Result<()> {
        if let Some((first, _)) = &self.source_at {
            return Err(say::two_sources(span, first, name));
        }
        self.arguments.source = source;
        self.source_at = Some((name.to_owned(), span));
        Ok(())
    }

    /// The texts of a list of factor alternatives.
    fn texts(&mut self, group: &Group) -> Vec<LitStr> {
        let mut texts = Vec::new();
        self.each(group.stream(), |list, item| {
            texts.push(item.parse::<LitStr>().map_err(|_| say::factor_text(&rest(item)))?);
            list.end(item, say::factor_text)
        });
        if group.stream().is_empty() {
            self.errors.push(say::no_texts(group.span()));
        }
        texts
    }

    fn reduce(&mut self, group: &Group) {
        let mut reduced: Vec<Reduced> = Vec::new();
        self.each(group.stream(), |list, item| {
            let Ok(factor) = item.call(Ident::parse_any) else { return Err(say::reduce_item(&rest(item))) };
            if !item.peek(Token![=]) {
                return Err(say::reduce_item(&factor.to_token_stream()));
            }
            item.parse::<Token![=]>()?;
            let Ok(op_at) = item.call(Ident::parse_any) else {
                return Err(if item.is_empty() {
                    say::reduce_item(&factor.to_token_stream())
                } else {
                    say::reduce_item(&rest(item))
                });
            };
            let op = Reduce::parse(&op_at)?;
            if reduced.iter().any(|other| other.factor == factor) {
                return Err(say::word_twice(&factor));
            }
            reduced.push(Reduced { factor, op, op_at });
            list.end(item, say::reduce_item)
        });
        if group.stream().is_empty() {
            self.errors.push(say::reduce_item(&group.to_token_stream()));
        }
        self.arguments.reduce = reduced;
    }

    /// A list of names.
    fn words(&mut self, group: &Group, wrong: fn(&TokenStream) -> syn::Error) -> Vec<Ident> {
        let mut words: Vec<Ident> = Vec::new();
        self.each(group.stream(), |list, item| {
            let Ok(word) = item.call(Ident::parse_any) else { return Err(wrong(&rest(item))) };
            if words.contains(&word) {
                return Err(say::word_twice(&word));
            }
            words.push(word);
            list.end(item, wrong)
        });
        if group.stream().is_empty() {
            self.errors.push(wrong(&group.to_token_stream()));
        }
        words
    }

    fn rows(&mut self, group: &Group) -> Vec<Row> {
        let mut rows = Vec::new();
        self.each(group.stream(), |list, item| {
            let operands_at = side(item)?;
            if !item.peek(Token![=>]) {
                return Err(say::row_arrow(&if item.is_empty() { operands_at } else { rest(item) }));
            }
            let arrow: Token![=>] = item.parse()?;
            if item.is_empty() {
                return Err(say::row_arrow(&arrow.to_token_stream()));
            }
            let results_at = side(item)?;
            list.end(item, say::row_end)?;
            let (operands, results) = (list.places(&operands_at), list.places(&results_at));
            if let (Some(operands), Some(results)) = (operands, results) {
                rows.push(Row { operands, results, operands_at, results_at });
            }
            Ok(())
        });
        rows
    }

    /// The placements of one side of a row; `None` if any was refused.
    fn places(&mut self, side: &TokenStream) -> Option<Vec<Place>> {
        let mut tokens = side.clone().into_iter();
        let inner = match (tokens.next(), tokens.next()) {
            (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::Parenthesis => {
                group.stream()
            }
            _ => side.clone(),
        };
        let before = self.errors.len();
        let mut places = Vec::new();
        self.each(inner, |list, item| {
            places.push(place(item)?);
            list.end(item, say::place)
        });
        (self.errors.len() == before).then_some(places)
    }

    /// Refuses what is left of an item.
    fn end(&mut self, item: ParseStream<'_>, wrong: fn(&TokenStream) -> syn::Error) -> syn::Result<()> {
        if item.is_empty() { Ok(()) } else { Err(wrong(&rest(item))) }
    }

    /// Calls a parser for every item of a comma-separated list and collects what is wrong.
    fn each(
        &mut self,
        tokens: TokenStream,
        mut parser: impl FnMut(&mut Self, ParseStream<'_>) -> syn::Result<()>,
    ) {
        for item in split(tokens) {
            let result = (|input: ParseStream<'_>| {
                let result = parser(self, input);
                rest(input);
                result
            })
            .parse2(item);
            if let Err(error) = result {
                self.errors.push(error);
            }
        }
    }

    /// What the items say together.
    fn finish(self) -> Arguments {
        let Self { errors, seen, source_at, factor_keys, mut arguments } = self;
        arguments.broken = !errors.is_empty();
        match (&arguments.source, source_at) {
            (Source::Rows(_) | Source::Function(_), Some((name, span))) => {
                for key in factor_keys {
                    errors.push(say::only_with_factors(&key, &name));
                }
                if !seen.iter().any(|key| key == "shape") {
                    errors.push(say::no_shape(span, &name));
                }
            }
            (Source::Nothing, _) if !arguments.broken => errors.push(say::no_source(Span::call_site())),
            _ => {}
        }
        arguments
    }
}

/// One placement.
fn place(input: ParseStream<'_>) -> syn::Result<Place> {
    let Ok(word) = input.call(Ident::parse_any) else { return Err(say::place(&rest(input))) };
    let inner = if input.peek(token::Paren) { Some(input.parse::<Group>()?) } else { None };
    match (word.to_string().as_str(), inner) {
        ("R", None) => Ok(Place::R),
        ("U", None) => Ok(Place::U),
        ("P", None) => Ok(Place::P(Reduce::Sum)),
        ("P", Some(group)) => match syn::parse2::<Ident>(group.stream()) {
            Ok(op) => Ok(Place::P(Reduce::parse(&op)?)),
            Err(_) => Err(say::partial_op(&group)),
        },
        ("S", Some(group)) => {
            let number = |input: ParseStream<'_>| {
                let minus = input.parse::<Option<Token![-]>>()?.is_some();
                let number: LitInt = input.parse()?;
                let number: i8 = number.base10_parse()?;
                Ok(if minus { -number } else { number })
            };
            match number.parse2(group.stream()) {
                Ok(axis) if (-16..16).contains(&axis) => Ok(Place::S(axis)),
                Ok(_) => Err(say::axis_range(&group)),
                Err(_) => Err(say::axis_number(&group)),
            }
        }
        ("S", None) => Err(say::axis_missing(&word)),
        (_, group) => {
            let word = word.to_token_stream();
            Err(say::place(&quote!(#word #group)))
        }
    }
}

/// One side of a row: a parenthesised list, or a single placement.
fn side(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![=>]) {
        tokens.extend([input.parse::<TokenTree>()?]);
    }
    if tokens.is_empty() { Err(say::row_arrow(&rest(input))) } else { Ok(tokens) }
}

fn path(input: ParseStream<'_>, key: &Ident) -> syn::Result<Path> {
    equals(input, key)?;
    if input.is_empty() || input.peek(Token![,]) {
        return Err(say::path_value(key, &key.to_token_stream()));
    }
    let fork = input.fork();
    if fork.parse::<Path>().is_err() {
        return Err(say::path_value(key, &input.parse::<TokenTree>()?.to_token_stream()));
    }
    input.call(Path::parse)
}

fn equals(input: ParseStream<'_>, key: &Ident) -> syn::Result<()> {
    if input.peek(Token![=]) && !input.peek(Token![=>]) && !input.peek(Token![==]) {
        input.parse::<Token![=]>()?;
        Ok(())
    } else {
        Err(say::key_equals(key))
    }
}

fn parenthesised(input: ParseStream<'_>, key: &Ident) -> syn::Result<Group> {
    if input.peek(token::Paren) { input.parse() } else { Err(say::key_parentheses(key)) }
}

fn bracketed(input: ParseStream<'_>) -> syn::Result<Group> {
    if input.peek(token::Bracket) { input.parse() } else { Err(input.error("")) }
}

/// All that is left.
fn rest(input: ParseStream<'_>) -> TokenStream {
    input.parse().unwrap_or_default()
}

/// Skips to the next comma.
fn skip_item(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

/// The items between commas.
fn split(tokens: TokenStream) -> Vec<TokenStream> {
    let mut items = vec![TokenStream::new()];
    for token in tokens {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => items.push(TokenStream::new()),
            _ => {
                if let Some(item) = items.last_mut() {
                    item.extend([token]);
                }
            }
        }
    }
    // A comma behind the last item is fine.
    if items.last().is_some_and(TokenStream::is_empty) {
        items.pop();
    }
    items
}
