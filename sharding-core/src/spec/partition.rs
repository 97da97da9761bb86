//! Partition specs: for every tensor axis the mesh axes that split it, by name.

use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::hash::{Hash, Hasher};

/// The mesh axes that split one tensor axis: none, one, or several. The first of several is the most significant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpecEntry(SmallVec<[Box<str>; 1]>);

impl SpecEntry {
    /// No mesh axis: the tensor axis is whole on every device.
    pub fn none() -> Self {
        Self::default()
    }
    /// Several mesh axes, the most significant first; none of them is [`SpecEntry::none`].
    pub fn several<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        Self(names.into_iter().map(|name| name.as_ref().into()).collect())
    }
    /// The names, the most significant first.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.0.iter().map(|name| &**name)
    }
    /// Whether no mesh axis splits this tensor axis.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a mesh axis as the least significant.
    pub(super) fn push(&mut self, name: &str) {
        self.0.push(name.into());
    }
}

impl From<&str> for SpecEntry {
    fn from(name: &str) -> Self {
        Self(smallvec![name.into()])
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
        match self.0.as_slice() {
            [] => f.write_str("None"),
            [name] => write!(f, "{name:?}"),
            names => {
                for (i, name) in names.iter().enumerate() {
                    write!(f, "{}{name:?}", if i == 0 { "(" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

/// How the axes of a tensor are split over the axes of some mesh, by name.
///
/// One [`SpecEntry`] per tensor axis; tensor axes beyond the last entry are not split. Trailing entries of none say
/// nothing, so two specs that differ only in them are equal.
///
/// ```
/// use sharding_core::{PartitionSpec, spec};
/// let columns = PartitionSpec::new([None, Some("tp")]);
/// assert_eq!(columns, spec![None, "tp", None]);
/// assert_eq!(spec!["dp", None, ("tp", "cp")].to_string(), r#"PartitionSpec("dp", None, ("tp", "cp"))"#);
/// ```
#[derive(Clone, Default)]
pub struct PartitionSpec(SmallVec<[SpecEntry; 4]>);

impl PartitionSpec {
    /// A spec of these entries, one per tensor axis, the first for the first axis.
    pub fn new<E: Into<SpecEntry>>(entries: impl IntoIterator<Item = E>) -> Self {
        Self(entries.into_iter().map(Into::into).collect())
    }
    /// The entries as they were given.
    pub fn entries(&self) -> &[SpecEntry] {
        &self.0
    }
    /// The entry of a tensor axis; [`SpecEntry::none`] beyond the last one.
    pub fn entry(&self, tensor_axis: usize) -> SpecEntry {
        self.0.get(tensor_axis).cloned().unwrap_or_default()
    }
    /// The entries without trailing ones of none: what equality and hash go by.
    pub fn canonical(&self) -> &[SpecEntry] {
        let len = self.0.iter().rposition(|entry| !entry.is_none()).map_or(0, |last| last + 1);
        self.0.get(..len).unwrap_or(&[])
    }

    /// Adds a mesh axis to the entry of a tensor axis as its least significant.
    pub(super) fn push(&mut self, tensor_axis: usize, name: &str) {
        if self.0.len() <= tensor_axis {
            self.0.resize(tensor_axis + 1, SpecEntry::none());
        }
        if let Some(entry) = self.0.get_mut(tensor_axis) {
            entry.push(name);
        }
    }
}

impl<E: Into<SpecEntry>> FromIterator<E> for PartitionSpec {
    fn from_iter<I: IntoIterator<Item = E>>(entries: I) -> Self {
        Self::new(entries)
    }
}

impl PartialEq for PartitionSpec {
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}
impl Eq for PartitionSpec {}
impl Hash for PartitionSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartitionSpec(")?;
        for (i, entry) in self.0.iter().enumerate() {
            write!(f, "{}{entry}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(")")
    }
}
impl fmt::Debug for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A [`PartitionSpec`] from entries of any form: a name, `None`, or a tuple of names.
///
/// ```
/// use sharding_core::spec;
/// assert_eq!(spec!["dp", None].entries().len(), 2);
/// assert!(spec![].canonical().is_empty());
/// ```
#[macro_export]
macro_rules! spec {
    ($($entry:expr),* $(,)?) => {
        <$crate::PartitionSpec as ::core::default::Default>::default()
            $(.with($crate::SpecEntry::from($entry)))*
    };
}

impl PartitionSpec {
    /// This spec with one entry more.
    #[must_use]
    pub fn with(mut self, entry: impl Into<SpecEntry>) -> Self {
        self.0.push(entry.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries() -> impl Strategy<Value = Vec<SpecEntry>> {
        let entry = proptest::collection::vec("[a-c]", 0..3).prop_map(SpecEntry::several);
        proptest::collection::vec(entry, 0..5)
    }

    proptest! {
        #[test]
        fn equality_ignores_trailing_none_and_nothing_else(a in entries(), b in entries(), extra in 0_usize..4) {
            let spec = PartitionSpec::new(a.clone());
            let padded = PartitionSpec::new(a.iter().cloned().chain((0..extra).map(|_| SpecEntry::none())));
            prop_assert_eq!(&spec, &padded);
            let n = a.len().max(b.len());
            let same = (0..n).all(|i| spec.entry(i) == PartitionSpec::new(b.clone()).entry(i));
            prop_assert_eq!(spec == PartitionSpec::new(b), same);
        }
    }

    #[test]
    fn the_order_of_several_names_counts() {
        assert_ne!(spec![("a", "b")], spec![("b", "a")]);
        assert_eq!(spec![["a", "b"]], spec![("a", "b")]);
    }
}
