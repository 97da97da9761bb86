//! Entries of a spec: what splits one tensor axis.

use smallvec::{SmallVec, smallvec};
use std::fmt;

pub(super) type Names = SmallVec<[Box<str>; 1]>;

/// What splits one tensor axis: no mesh axis, one, several (the first of them is the most significant), or whatever
/// the policy in force finds best.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpecEntry(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Names(Names),
    Unconstrained,
}

impl SpecEntry {
    /// No mesh axis: the tensor axis is whole on every device.
    pub fn none() -> Self {
        Self(Kind::Names(Names::new()))
    }
    /// Several mesh axes, the most significant first; none of them is [`SpecEntry::none`]. An empty name is a name that no mesh
    /// has: an error in a [`NamedSharding`](crate::NamedSharding), and passed over by a [`NamedMapping`](crate::NamedMapping), as
    /// all names that its mesh does not have.
    pub fn several<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        Self(Kind::Names(names.into_iter().map(|name| name.as_ref().into()).collect()))
    }
    /// Left open; JAX's `P.UNCONSTRAINED`. In questions that a [`NamedSharding`](crate::NamedSharding) answers it counts as none;
    /// to place a tensor by it is an error, as it does not say where.
    pub fn unconstrained() -> Self {
        Self(Kind::Unconstrained)
    }
    /// The names, the most significant first.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        let names: &[Box<str>] = match &self.0 {
            Kind::Names(names) => names,
            Kind::Unconstrained => &[],
        };
        names.iter().map(|name| &**name)
    }
    /// Whether this says that no mesh axis splits the tensor axis.
    pub fn is_none(&self) -> bool {
        matches!(&self.0, Kind::Names(names) if names.is_empty())
    }
    /// Whether this is left to the policy.
    pub fn is_unconstrained(&self) -> bool {
        matches!(self.0, Kind::Unconstrained)
    }

    /// Adds a mesh axis as the least significant.
    pub(super) fn push(&mut self, name: &str) {
        match &mut self.0 {
            Kind::Names(names) => names.push(name.into()),
            Kind::Unconstrained => self.0 = Kind::Names(smallvec![name.into()]),
        }
    }
}

impl Default for SpecEntry {
    fn default() -> Self {
        Self::none()
    }
}
impl From<&str> for SpecEntry {
    fn from(name: &str) -> Self {
        Self::several([name])
    }
}
impl From<Option<&str>> for SpecEntry {
    fn from(name: Option<&str>) -> Self {
        name.map_or_else(Self::none, Self::from)
    }
}
impl<const N: usize> From<[&str; N]> for SpecEntry {
    fn from(names: [&str; N]) -> Self {
        Self::several(names)
    }
}
impl From<(&str, &str)> for SpecEntry {
    fn from((a, b): (&str, &str)) -> Self {
        Self::several([a, b])
    }
}
impl From<(&str, &str, &str)> for SpecEntry {
    fn from((a, b, c): (&str, &str, &str)) -> Self {
        Self::several([a, b, c])
    }
}

impl fmt::Display for SpecEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Unconstrained => f.write_str("UNCONSTRAINED"),
            Kind::Names(names) => match names.as_slice() {
                [] => f.write_str("None"),
                [name] => write!(f, "{name:?}"),
                names => {
                    f.write_str("(")?;
                    write_names(f, names)?;
                    f.write_str(")")
                }
            },
        }
    }
}

/// `"x", "y"`.
pub(super) fn write_names(f: &mut fmt::Formatter<'_>, names: &[Box<str>]) -> fmt::Result {
    for (i, name) in names.iter().enumerate() {
        write!(f, "{}{name:?}", if i == 0 { "" } else { ", " })?;
    }
    Ok(())
}
