//! The text form of HLO-style shardings, written and read.

use super::{Form, HloSharding, Subgroup, TileAssignment};
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for HloSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Whole(kind) => write!(f, "{{{}}}", kind.name()),
            Form::Unknown => f.write_str("{unknown}"),
            Form::Maximal(device) => write!(f, "{{maximal device={device}}}"),
            Form::Tuple(elements) => {
                f.write_str("{")?;
                for (i, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Form::Tiled(tiles, subgroups) => {
                write!(f, "{{devices={tiles}")?;
                match subgroups.as_slice() {
                    [] => {}
                    [Subgroup::Replicated] => f.write_str(" last_tile_dim_replicate")?,
                    kinds => {
                        for (i, kind) in kinds.iter().enumerate() {
                            f.write_str(if i == 0 { " last_tile_dims={" } else { ", " })?;
                            f.write_str(kind.name())?;
                        }
                        f.write_str("}")?;
                    }
                }
                f.write_str("}")
            }
        }
    }
}
impl fmt::Debug for HloSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for HloSharding {
    type Err = Error;

    /// Reads what [`HloSharding`] and XLA write: `{replicated}`, `{manual}`, `{unreduced}`, `{unknown}`,
    /// `{maximal device=3}`, `{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}`, `{devices=[2,2]0,2,1,3}`,
    /// `{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}`, and `{{..}, {..}}` for several tensors. Spaces and
    /// `/* comments */` may stand between words.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if the text is something else, saying at which byte; as [`TileAssignment::iota`],
    /// [`TileAssignment::listed`] and [`HloSharding::tiled`] if it says what cannot be, with the byte at which that begins.
    fn from_str(text: &str) -> Result<Self> {
        let mut reader = Reader { text, at: 0 };
        let sharding = reader.sharding(true)?;
        match reader.peek() {
            None => Ok(sharding),
            Some(_) => Err(reader.expected("the end")),
        }
    }
}

/// A text and how far it is read, in bytes.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn expected(&mut self, what: &str) -> Error {
        self.peek();
        let found: String = self.rest().chars().take(20).collect();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("{found:?}") };
        Error::new(
            ErrorKind::Argument,
            format!("a sharding should have {what} at byte {}, found {found}", self.at),
        )
        .with_fix("write it as in {devices=[4,2]<=[8] last_tile_dim_replicate} or {replicated}")
    }

    /// The error of what was read from `start` on.
    fn located(&self, start: usize, error: Error) -> Error {
        let said: String = self.text.get(start..self.at).unwrap_or_default().chars().take(60).collect();
        error.with_detail(format!("at byte {start}: {said}"))
    }

    /// The next character that is no space and not in a comment.
    fn peek(&mut self) -> Option<char> {
        loop {
            let trimmed = self.rest().trim_start();
            self.at = self.text.len() - trimmed.len();
            match trimmed.strip_prefix("/*").and_then(|comment| comment.split_once("*/")) {
                Some((_, after)) => self.at = self.text.len() - after.len(),
                None => return trimmed.chars().next(),
            }
        }
    }

    fn skip(&mut self, wanted: &str) -> bool {
        self.peek();
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }

    fn take(&mut self, wanted: &str) -> Result<()> {
        if self.skip(wanted) { Ok(()) } else { Err(self.expected(&format!("'{wanted}'"))) }
    }

    /// Letters and underscores; empty where there are none.
    fn word(&mut self) -> &'a str {
        self.peek();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphabetic() && c != '_').unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn number(&mut self) -> Result<usize> {
        self.peek();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest.get(..end).unwrap_or_default().parse() {
            Ok(number) => {
                self.at += end;
                Ok(number)
            }
            Err(_) => Err(self.expected("a number")),
        }
    }

    fn numbers(&mut self) -> Result<Vec<usize>> {
        let mut numbers = vec![self.number()?];
        while self.skip(",") {
            numbers.push(self.number()?);
        }
        Ok(numbers)
    }

    fn sharding(&mut self, tuple: bool) -> Result<HloSharding> {
        self.take("{")?;
        if tuple && matches!(self.peek(), Some('{' | '}')) {
            return self.elements();
        }
        self.peek();
        let start = self.at;
        let sharding = match self.word() {
            "replicated" => HloSharding::replicated(),
            "manual" => HloSharding::manual(),
            "unreduced" => HloSharding::unreduced(),
            "unknown" => HloSharding::unknown(),
            "maximal" => {
                self.take("device")?;
                self.take("=")?;
                HloSharding::maximal(self.number()?)
            }
            "devices" => {
                self.take("=")?;
                self.tiled(start)?
            }
            _ => {
                self.at = start;
                return Err(self.expected(
                    "replicated, manual, unreduced, unknown, maximal device=, devices= or shardings in brackets",
                ));
            }
        };
        self.take("}")?;
        Ok(sharding)
    }

    fn elements(&mut self) -> Result<HloSharding> {
        let mut elements = Vec::new();
        if !self.skip("}") {
            loop {
                elements.push(self.sharding(false)?);
                if !self.skip(",") {
                    self.take("}")?;
                    break;
                }
            }
        }
        HloSharding::tuple(elements)
    }

    fn tiled(&mut self, start: usize) -> Result<HloSharding> {
        self.take("[")?;
        let dims = if self.peek() == Some(']') { Vec::new() } else { self.numbers()? };
        self.take("]")?;
        let tiles = if self.skip("<=") {
            self.take("[")?;
            let reshape = self.numbers()?;
            self.take("]")?;
            let mut perm: Vec<usize> = (0..reshape.len()).collect();
            if self.skip("T") {
                self.take("(")?;
                perm = self.numbers()?;
                self.take(")")?;
            }
            TileAssignment::iota(dims, reshape, perm)
        } else {
            TileAssignment::listed(dims, self.numbers()?)
        };
        let tiles = tiles.map_err(|error| self.located(start, error))?;
        let mut subgroups = Vec::new();
        match self.peek() {
            Some('}') => {}
            _ => {
                let at = self.at;
                match self.word() {
                    "last_tile_dim_replicate" => subgroups.push(Subgroup::Replicated),
                    "last_tile_dims" => {
                        self.take("=")?;
                        self.take("{")?;
                        subgroups.push(self.subgroup()?);
                        while self.skip(",") {
                            subgroups.push(self.subgroup()?);
                        }
                        self.take("}")?;
                    }
                    _ => {
                        self.at = at;
                        return Err(self.expected("last_tile_dim_replicate, last_tile_dims= or '}'"));
                    }
                }
            }
        }
        HloSharding::tiled(tiles, subgroups).map_err(|error| self.located(start, error))
    }

    fn subgroup(&mut self) -> Result<Subgroup> {
        self.peek();
        let at = self.at;
        let word = self.word();
        Subgroup::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
            self.at = at;
            self.expected("manual, unreduced or replicated")
        })
    }
}
