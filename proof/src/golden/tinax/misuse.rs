//! How outcomes of ours are measured by theirs: the one mapping of categories of errors.
//!
//! tinax raises a TypeError where an argument is of the wrong category of object, a ValueError where it is of the right one
//! and has a bad value, and a RuntimeError where it contradicts the running program. In Rust the first does not compile; so
//! a value in a case that our types have no place for is *unwritable*, and whatever error they raise for it is met.

use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use serde_json::Value;
use sharding_core::{Error, ErrorKind, Result};

/// What one case came to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The call was made; what it says of the fields that a case may want.
    Called(Result<Value>),
    /// The call cannot be written, for this reason.
    Unwritable(&'static str),
    /// The case says something that the replay does not read: another text, a dtype that we lack.
    Unread(String),
}

/// Why a value has no place in our types, by what it should have been.
pub(super) const LIST: &str = "a slice is no text and no number";
pub(super) const DEVICE: &str = "a Device is nothing else";
pub(super) const SIZE: &str = "a usize is no truth value and no fraction";
pub(super) const NAME: &str = "a name is a text";
pub(super) const AXIS_TYPE: &str = "an AxisType is one of three";
pub(super) const ENTRY: &str = "a SpecEntry is none, a name or names";
pub(super) const CHOICE: &str = "an enum has its values only";
pub(super) const HOST: &str = "HostData has elements of a DType";
pub(super) const SHARDING: &str = "a Target is a sharding";
pub(super) const MESH: &str = "a DeviceMesh has devices";
pub(super) const SPECS: &str = "in_specs and out_specs are PartitionSpecs";
pub(super) const FUNCTION: &str = "a function is a function";
pub(super) const SHAPE: &str = "a Shape is made of any list of extents";
pub(super) const FLAG: &str = "a bool is no number";

/// The verdict, and a line for the reader where a case passed for a reason other than equality.
pub(super) fn judge(case: &Node<'_>, outcome: Outcome) -> Parsed<(Verdict, Option<String>)> {
    let category = case.optional("error").map(|error| error.field("type")?.text()).transpose()?;
    Ok(match (category, outcome) {
        (Some(_), Outcome::Unwritable(reason)) => {
            (Verdict::Passed, Some(format!("unwritable in Rust: {reason}")))
        }
        (Some(category), Outcome::Called(Err(error))) if is_of(category, &error) => (Verdict::Passed, None),
        (Some(category), Outcome::Called(got)) => {
            (Verdict::failed(format!("an error as their {category}"), format!("{got:?}")), None)
        }
        (None, Outcome::Called(Ok(got))) => (super::compare(&case.field("want")?, &got), None),
        (None, Outcome::Called(Err(error))) => {
            (Verdict::failed(case.field("want")?.value().to_string(), format!("{error:?}")), None)
        }
        (None, Outcome::Unwritable(reason)) => {
            (Verdict::failed(case.field("want")?.value().to_string(), reason), None)
        }
        (_, Outcome::Unread(what)) => (Verdict::Skipped(what), None),
    })
}

/// Whether an error of ours is of the category that theirs is of.
fn is_of(category: &str, error: &Error) -> bool {
    match (category, error.kind()) {
        (_, ErrorKind::Internal) => false,
        // What contradicts the running program.
        ("RuntimeError", kind) => kind == ErrorKind::Process,
        // A value that is bad: any of our kinds says so, each for its subject.
        ("ValueError" | "IndivisibleError", _) => true,
        // A wrong category that ours can spell, and refuses.
        ("TypeError", kind) => matches!(kind, ErrorKind::DType | ErrorKind::Argument | ErrorKind::Axis),
        // Errors of their program rather than of the caller's.
        ("AssertionError" | "IndexError" | "AttributeError" | "NotImplementedError", _) => true,
        _ => false,
    }
}

/// A value read from a case: ours, or why there is none.
pub(super) type Read<T> = std::result::Result<T, &'static str>;

/// A list, each item read by `item`.
pub(super) fn list<T>(value: &Value, item: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    value.as_array().ok_or(LIST)?.iter().map(item).collect()
}

/// A size; a negative one can be written nowhere, and is an error of its value.
pub(super) fn size(value: &Value) -> Read<Result<usize>> {
    match value.as_i64() {
        Some(size) => {
            Ok(usize::try_from(size).map_err(|_| crate::golden::spelling::unspellable(&size.to_string())))
        }
        None => Err(SIZE),
    }
}

/// A list of sizes.
pub(super) fn sizes(value: &Value) -> Read<Result<Vec<usize>>> {
    Ok(list(value, size)?.into_iter().collect())
}

/// A name.
pub(super) fn name(value: &Value) -> Read<String> {
    value.as_str().map(str::to_owned).ok_or(NAME)
}
