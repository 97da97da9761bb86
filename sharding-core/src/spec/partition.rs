//! Partition specs: for every tensor axis the mesh axes that split it, by name.

use super::entry::{Names, write_names};
use super::{SpecEntry, parse};
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

/// How the axes of a tensor are split over the axes of some mesh, by name.
///
/// One [`SpecEntry`] per tensor axis; tensor axes beyond the last entry are not split. Two sets of names may follow:
/// mesh axes over which every device holds a term of a sum (*unreduced*), and mesh axes over which the tensor is whole
/// while its gradient is unreduced (*reduced*).
///
/// Specs are equal if they are written alike, in canonical form: an entry of no names is none, and one of one name is
/// that name. A trailing none counts (`P('x')` is not `P('x', None)`, as in JAX), though it changes nothing: whether two
/// specs put the same data in the same places is asked of shardings, by
/// [`is_equivalent_to`](crate::Sharding::is_equivalent_to).
///
/// The text form is read back by [`FromStr`], which also takes what JAX prints.
///
/// ```
/// use sharding_core::{PartitionSpec, spec};
/// let columns = PartitionSpec::new([None, Some("tp")]);
/// assert_eq!(columns, spec![None, ["tp"]]);
/// assert_eq!(spec!["dp", None, ("tp", "cp")].to_string(), r#"PartitionSpec("dp", None, ("tp", "cp"))"#);
///
/// let sum = spec!["dp"].with_unreduced(["tp"])?;
/// assert_eq!(sum.to_string(), r#"PartitionSpec("dp", unreduced={"tp"})"#);
/// assert_eq!("P('dp', unreduced={'tp'})".parse::<PartitionSpec>()?, sum);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PartitionSpec {
    entries: SmallVec<[SpecEntry; 4]>,
    // Sorted, without repeats; disjoint from each other and from the names of the entries.
    unreduced: Names,
    reduced: Names,
}

impl PartitionSpec {
    /// A spec of these entries, one per tensor axis, the first for the first axis.
    pub fn new<E: Into<SpecEntry>>(entries: impl IntoIterator<Item = E>) -> Self {
        Self { entries: entries.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// This spec with other mesh axes as unreduced: along them every device holds a term of a sum.
    ///
    /// # Errors
    /// [`ErrorKind::Unreduced`] if one of them is in an entry, or is reduced.
    pub fn with_unreduced<N: AsRef<str>>(self, names: impl IntoIterator<Item = N>) -> Result<Self> {
        Self { unreduced: sorted(names), ..self }.checked()
    }
    /// This spec with other mesh axes as reduced: along them the tensor is whole, and its gradient unreduced.
    ///
    /// # Errors
    /// [`ErrorKind::Unreduced`] if one of them is in an entry, or is unreduced.
    pub fn with_reduced<N: AsRef<str>>(self, names: impl IntoIterator<Item = N>) -> Result<Self> {
        Self { reduced: sorted(names), ..self }.checked()
    }
    /// This spec with other entries; unreduced and reduced axes stay.
    ///
    /// # Errors
    /// [`ErrorKind::Unreduced`] if an entry names one of those.
    pub fn with_entries<E: Into<SpecEntry>>(self, entries: impl IntoIterator<Item = E>) -> Result<Self> {
        Self { entries: entries.into_iter().map(Into::into).collect(), ..self }.checked()
    }
    /// The entries of this spec and then those of another, for a tensor with the axes of both; the sets are united.
    ///
    /// # Errors
    /// [`ErrorKind::Unreduced`] if a name is in two of the united entries, unreduced and reduced axes.
    pub fn concat(&self, other: &Self) -> Result<Self> {
        let entries = self.entries.iter().chain(&other.entries).cloned().collect();
        let unreduced = sorted(self.unreduced().chain(other.unreduced()));
        let reduced = sorted(self.reduced().chain(other.reduced()));
        Self { entries, unreduced, reduced }.checked()
    }
    /// The spec of a gradient with respect to a tensor of this spec: unreduced and reduced change places.
    #[must_use]
    pub fn cotangent(self) -> Self {
        Self { entries: self.entries, unreduced: self.reduced, reduced: self.unreduced }
    }

    /// The entries as they were given.
    pub fn entries(&self) -> &[SpecEntry] {
        &self.entries
    }
    /// The unreduced mesh axes, sorted.
    pub fn unreduced(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.unreduced.iter().map(|name| &**name)
    }
    /// The reduced mesh axes, sorted.
    pub fn reduced(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.reduced.iter().map(|name| &**name)
    }
    /// The entry of a tensor axis; [`SpecEntry::none`] beyond the last one.
    pub fn entry(&self, tensor_axis: usize) -> SpecEntry {
        self.entries.get(tensor_axis).cloned().unwrap_or_default()
    }
    /// The entries without trailing ones of none.
    pub fn trimmed(&self) -> &[SpecEntry] {
        let len = self.entries.iter().rposition(|entry| !entry.is_none()).map_or(0, |last| last + 1);
        self.entries.get(..len).unwrap_or(&[])
    }

    /// Adds a mesh axis to the entry of a tensor axis as its least significant.
    pub(super) fn push(&mut self, tensor_axis: usize, name: &str) {
        if self.entries.len() <= tensor_axis {
            self.entries.resize(tensor_axis + 1, SpecEntry::none());
        }
        if let Some(entry) = self.entries.get_mut(tensor_axis) {
            entry.push(name);
        }
    }

    fn checked(self) -> Result<Self> {
        let refuse = |name: &str, what: &str| {
            Err(Error::new(ErrorKind::Unreduced, format!("the mesh axis '{name}' {what} in {self}"))
                .with_fix("let every mesh axis split, be unreduced, or be reduced: one of the three"))
        };
        for name in self.entries.iter().flat_map(SpecEntry::names) {
            if self.unreduced().any(|other| other == name) {
                return refuse(name, "splits a tensor axis and is unreduced");
            }
            if self.reduced().any(|other| other == name) {
                return refuse(name, "splits a tensor axis and is reduced");
            }
        }
        if let Some(name) = self.unreduced().find(|name| self.reduced().any(|other| other == *name)) {
            return refuse(name, "is both unreduced and reduced");
        }
        Ok(self)
    }
}

fn sorted<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Names {
    let mut names: Names = names.into_iter().map(|name| name.as_ref().into()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl<E: Into<SpecEntry>> FromIterator<E> for PartitionSpec {
    fn from_iter<I: IntoIterator<Item = E>>(entries: I) -> Self {
        Self::new(entries)
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartitionSpec(")?;
        let mut comma = "";
        for entry in &self.entries {
            write!(f, "{comma}{entry}")?;
            comma = ", ";
        }
        for (word, names) in [("unreduced", &self.unreduced), ("reduced", &self.reduced)] {
            if !names.is_empty() {
                write!(f, "{comma}{word}={{")?;
                write_names(f, names)?;
                f.write_str("}")?;
                comma = ", ";
            }
        }
        f.write_str(")")
    }
}
impl fmt::Debug for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PartitionSpec {
    type Err = Error;

    /// Reads the text form, and JAX's: `P` for `PartitionSpec`, single quotes, `[..]` for `(..)`, `P.UNCONSTRAINED`, a
    /// comma before a closing bracket.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] with the place and what should stand there; [`ErrorKind::Unreduced`] as
    /// [`PartitionSpec::with_unreduced`].
    fn from_str(text: &str) -> Result<Self> {
        parse::spec(text)
    }
}

/// A [`PartitionSpec`] from entries of any form: a name, `None`, or a tuple of names.
///
/// ```
/// use sharding_core::{SpecEntry, spec};
/// assert_eq!(spec!["dp", None].entries().len(), 2);
/// assert!(spec![SpecEntry::unconstrained()].entry(0).is_unconstrained());
/// ```
#[macro_export]
macro_rules! spec {
    ($($entry:expr),* $(,)?) => {
        <$crate::PartitionSpec as ::core::default::Default>::default()
            $(.with($crate::SpecEntry::from($entry)))*
    };
}

impl PartitionSpec {
    /// This spec with one entry more, for a spec without unreduced and reduced axes: an entry that names one of those
    /// takes it from them. [`PartitionSpec::with_entries`] refuses instead.
    #[must_use]
    pub fn with(mut self, entry: impl Into<SpecEntry>) -> Self {
        let entry = entry.into();
        let taken = |name: &mut Box<str>| !entry.names().any(|other| other == &**name);
        self.unreduced.retain(taken);
        self.reduced.retain(taken);
        self.entries.push(entry);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = SpecEntry> {
        prop_oneof![
            4 => proptest::collection::vec("[a-c]", 0..3).prop_map(SpecEntry::several),
            1 => proptest::collection::vec(".{0,3}", 0..3).prop_map(SpecEntry::several),
            1 => Just(SpecEntry::unconstrained()),
        ]
    }
    fn spec() -> impl Strategy<Value = PartitionSpec> {
        let set = || proptest::collection::vec("[a-g]|[^a-g]{2}", 0..3);
        (proptest::collection::vec(entry(), 0..5), set(), set()).prop_map(|(entries, unreduced, reduced)| {
            let spec = PartitionSpec::new(entries);
            let spec = spec.clone().with_unreduced(unreduced).unwrap_or(spec);
            spec.clone().with_reduced(reduced).unwrap_or(spec)
        })
    }

    proptest! {
        #[test]
        fn the_text_form_is_read_back(spec in spec()) {
            prop_assert_eq!(spec.to_string().parse::<PartitionSpec>().unwrap(), spec);
        }
        #[test]
        fn any_text_is_read_or_refused(text in "(P\\()?[\\[\\](){}'\"a,NoneU=. ]{0,12}\\)?") {
            if let Ok(spec) = text.parse::<PartitionSpec>() {
                prop_assert_eq!(spec.to_string().parse::<PartitionSpec>().unwrap(), spec);
            }
        }
        #[test]
        fn equality_is_of_what_is_written(a in spec(), b in spec()) {
            prop_assert_eq!(a == b, a.to_string() == b.to_string());
            prop_assert_ne!(a.clone().with(None), a);
        }
        #[test]
        fn concatenation_has_the_entries_and_names_of_both(a in spec(), b in spec()) {
            let Ok(both) = a.concat(&b) else {
                let split = |spec: &PartitionSpec| {
                    spec.entries().iter().flat_map(SpecEntry::names).map(str::to_owned).collect::<Vec<_>>()
                };
                let set = |spec: &PartitionSpec| spec.unreduced().chain(spec.reduced()).map(str::to_owned).collect::<Vec<_>>();
                let meet = |x: &[String], y: &[String]| x.iter().any(|name| y.contains(name));
                prop_assert!(meet(&split(&a), &set(&b)) || meet(&set(&a), &split(&b)) || meet(&set(&a), &set(&b)));
                return Ok(());
            };
            prop_assert_eq!(both.entries(), [a.entries(), b.entries()].concat());
            prop_assert!(a.unreduced().chain(b.unreduced()).all(|name| both.unreduced().any(|n| n == name)));
            prop_assert_eq!(both.clone().cotangent().cotangent(), both);
        }
    }

    #[test]
    fn entries_have_a_canonical_form() {
        let none = [SpecEntry::several::<&str>([]), SpecEntry::none()];
        assert!(none.iter().all(|entry| *entry == SpecEntry::from(None)));
        // An empty name would silently replicate; it is a name, and no mesh has it.
        assert_eq!(SpecEntry::from(""), SpecEntry::from([""]));
        assert!(!SpecEntry::from("").is_none());
        assert_eq!(spec![["a"]], spec!["a"]);
        assert_eq!(spec![["a", "b"]], spec![("a", "b")]);
        assert_ne!(spec![("a", "b")], spec![("b", "a")]);
        assert_ne!(spec![None], spec![SpecEntry::unconstrained()]);
    }

    #[test]
    fn a_mesh_axis_splits_is_unreduced_or_is_reduced() {
        let kind = |spec: Result<PartitionSpec>| spec.unwrap_err().kind();
        assert_eq!(kind(spec!["x"].with_unreduced(["x"])), ErrorKind::Unreduced);
        assert_eq!(kind(spec![("y", "x")].with_reduced(["x"])), ErrorKind::Unreduced);
        let sum = spec![None].with_unreduced(["x", "z", "x"]).unwrap();
        assert_eq!(sum.unreduced().collect::<Vec<_>>(), ["x", "z"]);
        assert_eq!(kind(sum.clone().with_reduced(["z"])), ErrorKind::Unreduced);
        assert_eq!(kind(sum.clone().with_entries(["z"])), ErrorKind::Unreduced);
        assert_eq!(sum.clone().cotangent().reduced().collect::<Vec<_>>(), ["x", "z"]);
        assert_eq!(sum.clone().with("x").unreduced().collect::<Vec<_>>(), ["z"]);
        // Setting a set replaces it.
        assert_eq!(sum.with_unreduced(["y"]).unwrap(), spec![None].with_unreduced(["y"]).unwrap());
    }
}
