//! Flat lists of operands, and the declared operands that they belong to.

use std::ops::Range;

/// How many flat operands each declared operand stands for: 1 for a tensor, 0 or 1 for an optional one, any number
/// for a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups<'a>(pub &'a [u16]);

impl Groups<'_> {
    /// The flat operands of a declared operand.
    #[inline]
    pub fn range(self, declared: usize) -> Range<usize> {
        let start = self.0.iter().take(declared).map(|n| usize::from(*n)).sum();
        start..start + self.0.get(declared).map_or(0, |n| usize::from(*n))
    }
    /// The declared operand that a flat one belongs to, and its number there.
    pub fn locate(self, flat: usize) -> (usize, usize) {
        let mut start = 0;
        for (declared, n) in self.0.iter().enumerate() {
            let end = start + usize::from(*n);
            if flat < end {
                return (declared, flat - start);
            }
            start = end;
        }
        (self.0.len(), flat.saturating_sub(start))
    }
}

/// A flat list with its grouping: what generated code takes its operands from.
#[derive(Clone, Copy)]
pub struct Grouped<'a, T> {
    flat: &'a [T],
    groups: Groups<'a>,
}

impl<'a, T> Grouped<'a, T> {
    /// A flat list in groups.
    pub fn new(flat: &'a [T], groups: Groups<'a>) -> Self {
        Self { flat, groups }
    }
    /// How they are grouped.
    pub fn groups(&self) -> Groups<'a> {
        self.groups
    }
    /// All of them.
    pub fn flat(&self) -> &'a [T] {
        self.flat
    }
    /// Those of a slice operand.
    #[inline]
    pub fn many(&self, declared: usize) -> &'a [T] {
        self.flat.get(self.groups.range(declared)).unwrap_or(&[])
    }
    /// That of an optional operand.
    #[inline]
    pub fn optional(&self, declared: usize) -> Option<&'a T> {
        self.many(declared).first()
    }
    /// That of a plain operand.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) if it is missing, which dispatch rules out.
    #[inline]
    pub fn one(&self, declared: usize) -> crate::Result<&'a T> {
        self.optional(declared).ok_or_else(|| {
            crate::Error::new(crate::ErrorKind::Internal, format!("operand {declared} was not passed"))
        })
    }
}
