//! Over which devices a collective goes.

use crate::{Error, ErrorKind, Result};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::Arc;

/// The mesh axes that a collective goes over, by name: `"x"`, or `["y", "x"]` for several. The order counts: the first is the
/// most significant, so over `["y", "x"]` all devices of one `y` come before those of the next.
///
/// ```
/// use sharding_core::manual::Over;
/// assert_eq!(Over::from(["y", "x"]).to_string(), "'y', 'x'");
/// assert_ne!(Over::from(["y", "x"]), Over::from(["x", "y"]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Over {
    names: SmallVec<[Box<str>; 1]>,
    groups: Option<Arc<[Vec<usize>]>>,
    invarying: bool,
}

impl Over {
    /// The names, the most significant first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Within groups of the axes' indices only (`axis_index_groups` in JAX). Each index must be in exactly one group; the
    /// order within a group is the order of the devices. Groups of several sizes are for reductions only.
    ///
    /// What comes out of a collective within groups differs between them, so it counts as varying over the axes.
    #[must_use]
    pub fn within(mut self, groups: impl IntoIterator<Item = impl Into<Vec<usize>>>) -> Self {
        self.groups = Some(groups.into_iter().map(Into::into).collect());
        self
    }

    /// For [`all_gather`](super::ManualCx::all_gather): the result counts as the same on all devices over these axes, so that
    /// an out_spec need not name them (`to='invarying'` in JAX).
    #[must_use]
    pub fn invarying(mut self) -> Self {
        self.invarying = true;
        self
    }

    pub(super) fn is_invarying(&self) -> bool {
        self.invarying
    }
    pub(super) fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// The groups of `size` indices, checked.
    pub(super) fn groups_of(&self, size: usize) -> Result<Option<&[Vec<usize>]>> {
        let Some(groups) = self.groups.as_deref() else { return Ok(None) };
        let mut seen = vec![0_usize; size];
        for index in groups.iter().flatten() {
            match seen.get_mut(*index) {
                Some(times) => *times += 1,
                None => {
                    return Err(Error::new(
                        ErrorKind::Argument,
                        format!("groups of the {size} indices over {self} name the index {index}"),
                    )
                    .with_fix(format!("use indices in 0..{size}")));
                }
            }
        }
        match seen.iter().position(|times| *times != 1) {
            None => Ok(Some(groups)),
            Some(index) => Err(Error::new(
                ErrorKind::Argument,
                format!("groups of the {size} indices over {self} must name each once; {index} is not in exactly one"),
            )
            .with_fix("put every index into one group")),
        }
    }

    /// Whether all groups are of one size.
    pub(super) fn is_even(&self) -> bool {
        self.groups.as_deref().is_none_or(|groups| {
            groups.windows(2).all(|pair| match pair {
                [a, b] => a.len() == b.len(),
                _ => true,
            })
        })
    }
}

impl From<&str> for Over {
    fn from(name: &str) -> Self {
        Self { names: smallvec![name.into()], groups: None, invarying: false }
    }
}
impl<const N: usize> From<[&str; N]> for Over {
    fn from(names: [&str; N]) -> Self {
        Self::from(names.as_slice())
    }
}
impl From<&[&str]> for Over {
    fn from(names: &[&str]) -> Self {
        Self { names: names.iter().map(|name| (*name).into()).collect(), groups: None, invarying: false }
    }
}
impl From<&Over> for Over {
    fn from(over: &Over) -> Self {
        over.clone()
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            write!(f, "{}'{name}'", if i == 0 { "" } else { ", " })?;
        }
        if let Some(groups) = &self.groups {
            write!(f, " within {groups:?}")?;
        }
        Ok(())
    }
}
