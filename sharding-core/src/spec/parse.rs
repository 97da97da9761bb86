//! Reading the text form of a partition spec.

use super::{PartitionSpec, SpecEntry};
use crate::{Error, ErrorKind, Result};
use std::iter::Peekable;
use std::str::CharIndices;

/// Reads `PartitionSpec("x", None, ("y", "z"), UNCONSTRAINED, unreduced={"u"}, reduced={"r"})`.
pub(super) fn spec(text: &str) -> Result<PartitionSpec> {
    let mut reader = Reader { text, rest: text.char_indices().peekable() };
    match reader.word().as_str() {
        "P" | "PartitionSpec" => {}
        _ => return Err(reader.expected_at(0, "PartitionSpec(..) or P(..)")),
    }
    reader.take('(', "an opening bracket")?;
    let (mut entries, mut unreduced, mut reduced) = (Vec::new(), None, None);
    loop {
        if reader.skip(')') {
            break;
        }
        let at = reader.at();
        match reader.item()? {
            Item::Entry(_) if unreduced.is_some() || reduced.is_some() => {
                return Err(reader.expected_at(at, "no entry after unreduced and reduced"));
            }
            Item::Entry(entry) => entries.push(entry),
            Item::Set(word, names) => {
                let slot = if word == "unreduced" { &mut unreduced } else { &mut reduced };
                if slot.replace(names).is_some() {
                    return Err(reader.expected_at(at, "each set once"));
                }
            }
        }
        if !reader.skip(',') {
            reader.take(')', "a comma or a closing bracket")?;
            break;
        }
    }
    if reader.peek().is_some() {
        return Err(reader.expected_at(reader.end(), "the end"));
    }
    PartitionSpec::new(entries)
        .with_unreduced(unreduced.unwrap_or_default())?
        .with_reduced(reduced.unwrap_or_default())
}

enum Item {
    Entry(SpecEntry),
    Set(String, Vec<String>),
}

struct Reader<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
}

impl Reader<'_> {
    fn expected_at(&self, at: usize, what: &str) -> Error {
        let found: String = self.text.get(at..).unwrap_or_default().chars().take(20).collect();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("{found:?}") };
        Error::new(
            ErrorKind::Argument,
            format!("a partition spec should have {what} at byte {at}, found {found}"),
        )
        .with_fix(r#"write it as in PartitionSpec("dp", None, ("tp", "cp"), unreduced={"x"})"#)
    }
    fn end(&self) -> usize {
        self.rest.clone().next().map_or(self.text.len(), |(at, _)| at)
    }
    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        while self.rest.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        self.rest.peek().map(|(_, c)| *c)
    }
    /// Where that character stands.
    fn at(&mut self) -> usize {
        self.peek();
        self.end()
    }
    fn skip(&mut self, wanted: char) -> bool {
        self.peek() == Some(wanted) && self.rest.next().is_some()
    }
    fn take(&mut self, wanted: char, what: &str) -> Result<()> {
        let at = self.at();
        if self.skip(wanted) { Ok(()) } else { Err(self.expected_at(at, what)) }
    }
    /// Letters, points and underscores.
    fn word(&mut self) -> String {
        self.peek();
        let mut word = String::new();
        while let Some((_, c)) =
            self.rest.next_if(|(_, c)| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'))
        {
            word.push(c);
        }
        word
    }

    fn item(&mut self) -> Result<Item> {
        let at = self.at();
        match self.peek() {
            Some('"' | '\'') => Ok(Item::Entry(SpecEntry::several([self.name()?]))),
            Some('(') => Ok(Item::Entry(SpecEntry::several(self.names('(', ')')?))),
            Some('[') => Ok(Item::Entry(SpecEntry::several(self.names('[', ']')?))),
            _ => match self.word().as_str() {
                "None" => Ok(Item::Entry(SpecEntry::none())),
                "UNCONSTRAINED" | "P.UNCONSTRAINED" | "PartitionSpec.UNCONSTRAINED" => {
                    Ok(Item::Entry(SpecEntry::unconstrained()))
                }
                word @ ("unreduced" | "reduced") => {
                    self.take('=', "'='")?;
                    Ok(Item::Set(word.to_owned(), self.names('{', '}')?))
                }
                _ => Err(self.expected_at(
                    at,
                    "a name in quotes, None, UNCONSTRAINED, names in brackets, unreduced= or reduced=",
                )),
            },
        }
    }

    /// Names between brackets; a bracket inside is an error.
    fn names(&mut self, open: char, close: char) -> Result<Vec<String>> {
        self.take(open, &format!("'{open}'"))?;
        let mut names = Vec::new();
        loop {
            if self.skip(close) {
                return Ok(names);
            }
            names.push(self.name()?);
            if !self.skip(',') {
                self.take(close, &format!("a comma or '{close}'"))?;
                return Ok(names);
            }
        }
    }

    /// A name in single or double quotes, with the escapes that Rust's `{:?}` writes.
    fn name(&mut self) -> Result<String> {
        let start = self.at();
        let quote = match self.rest.next_if(|(_, c)| matches!(c, '"' | '\'')) {
            Some((_, quote)) => quote,
            None => return Err(self.expected_at(start, "a name in quotes")),
        };
        let mut name = String::new();
        loop {
            match self.rest.next() {
                None => return Err(self.expected_at(start, "a closing quote for the name")),
                Some((_, c)) if c == quote => return Ok(name),
                Some((at, '\\')) => name.push(self.escaped(at)?),
                Some((_, c)) => name.push(c),
            }
        }
    }

    fn escaped(&mut self, at: usize) -> Result<char> {
        let escape = self.rest.next().map(|(_, c)| c);
        let c = match escape {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('0') => Some('\0'),
            Some(c @ ('\\' | '"' | '\'')) => Some(c),
            Some('u') if self.rest.next_if(|(_, c)| *c == '{').is_some() => {
                let mut code = 0_u32;
                while let Some(digit) = self.rest.peek().and_then(|(_, c)| c.to_digit(16)) {
                    self.rest.next();
                    code = code.saturating_mul(16).saturating_add(digit);
                }
                let closed = self.rest.next_if(|(_, c)| *c == '}').is_some();
                char::from_u32(code).filter(|_| closed)
            }
            _ => None,
        };
        c.ok_or_else(|| self.expected_at(at, r#"an escape such as \", \\, \n or \u{e9}"#))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    fn check(text: &str, want: PartitionSpec) {
        assert_eq!(text.parse::<PartitionSpec>().unwrap(), want, "{text}");
    }

    #[test]
    fn what_jax_prints_is_read() {
        check("P()", spec![]);
        check("PartitionSpec('x',)", spec!["x"]);
        check("P(None, ('x', 'y'))", spec![None, ("x", "y")]);
        check(" P( ['x' ,'y',] , () ,) ", spec![("x", "y"), None]);
        check("P(P.UNCONSTRAINED, '')", spec![SpecEntry::unconstrained(), ""]);
        check("P('y', unreduced={'x'}, reduced={\"z\"})", {
            spec!["y"].with_unreduced(["x"]).unwrap().with_reduced(["z"]).unwrap()
        });
        check("P('a\\'b\\u{e9}')", spec!["a'b\u{e9}"]);
    }

    #[test]
    fn what_is_no_spec_is_refused_with_its_place() {
        let refused = |text: &str, at: usize| {
            let error = text.parse::<PartitionSpec>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument, "{text}");
            assert!(error.message().contains(&format!("at byte {at},")), "{text}: {error}");
        };
        refused("", 0);
        refused("Q('x')", 0);
        refused("P('x'", 5);
        refused("P('x') 1", 7);
        refused("P(x)", 2);
        refused("P('x)", 2);
        refused("P(('x', ('y',)))", 8);
        refused("P('\\q')", 3);
        refused("P(unreduced={'x'}, 'y')", 19);
        refused("P(unreduced={'x'}, unreduced={'y'})", 19);
        let error = "P('x', unreduced={'x'})".parse::<PartitionSpec>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreduced);
    }
}
