//! A source file as a flat list of tokens: comments are gone and strings are whole, so no check is fooled by them.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// One token; a bracket is a token as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Its text, as in the source.
    pub(super) text: String,
    /// Its line, counted from 1.
    pub(super) line: usize,
    /// How many brackets are open around it.
    pub(super) depth: usize,
}

/// The tokens of a Rust file; none if it is no Rust (a file that shows a mistake to the compiler, say).
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    if let Ok(stream) = source.parse::<TokenStream>() {
        flatten(stream, 0, &mut tokens);
    }
    tokens
}

/// Whether the tokens from `at` on have these texts.
pub(super) fn starts_with(tokens: &[Token], at: usize, texts: &[&str]) -> bool {
    texts.iter().enumerate().all(|(offset, text)| text_at(tokens, at + offset) == *text)
}

/// The text of a token; empty past the end.
pub(super) fn text_at(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| &token.text)
}

fn flatten(stream: TokenStream, depth: usize, tokens: &mut Vec<Token>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => flatten_group(&group, depth, tokens),
            other => {
                let line = other.span().start().line;
                tokens.push(Token { text: other.to_string(), line, depth });
            }
        }
    }
}

fn flatten_group(group: &Group, depth: usize, tokens: &mut Vec<Token>) {
    let (open, close) = match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    };
    let line = group.span_open().start().line;
    tokens.push(Token { text: open.to_owned(), line, depth });
    flatten(group.stream(), depth + 1, tokens);
    let line = group.span_close().start().line;
    tokens.push(Token { text: close.to_owned(), line, depth });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_gone_and_lines_and_depths_are_known() {
        let tokens = tokens("// one\nfn f() {\n  \"a // b\" /* c */\n}");
        let texts: Vec<_> =
            tokens.iter().map(|token| (token.text.as_str(), token.line, token.depth)).collect();
        assert_eq!(
            texts,
            [
                ("fn", 2, 0),
                ("f", 2, 0),
                ("(", 2, 0),
                (")", 2, 0),
                ("{", 2, 0),
                ("\"a // b\"", 3, 1),
                ("}", 4, 0)
            ]
        );
        assert!(starts_with(&tokens, 0, &["fn", "f"]) && !starts_with(&tokens, 6, &["}", "fn"]));
    }
}
